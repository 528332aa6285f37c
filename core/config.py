"""The settings: environment (`CEMS_*`), then `config.toml`, then the default; and where each value came from."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from cems.core.paths import Home
from cems.core.policy import RecallPolicy

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class ConfigError(Exception):
    """A setting that cannot be used; the message names it, its origin and what is allowed."""


class Settings(BaseSettings):
    """Every setting of CEMS. A field's description is what `cems config` and the documentation show."""

    model_config = SettingsConfigDict(env_prefix="CEMS_", extra="ignore", frozen=True, validate_default=True)

    inject: Literal["trusted", "candidates"] = Field(
        "candidates",
        description="what may reach a prompt: trusted memories only, or agents' candidates too, marked unverified",
    )
    token_budget: Annotated[int, Field(ge=50, le=2000)] = Field(
        2000, description="most tokens put in front of the model for one prompt"
    )
    profile_budget: Annotated[int, Field(ge=0, le=2000)] = Field(
        2000, description="most tokens of the block at the start of a session; 0 for none"
    )
    token_safety: Annotated[float, Field(ge=1.0, le=3.0)] = Field(
        1.4, description="factor on our token count; newer tokenizers make up to a third more tokens than ours"
    )
    max_memories: Annotated[int, Field(ge=1, le=50)] = Field(8, description="most memories put into one prompt")
    gate_threshold: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.30, description="probability that a memory is needed from which on it is injected"
    )
    hook_deadline: Annotated[float, Field(ge=0.05, le=10.0)] = Field(
        1.0, description="seconds after which a hook gives up and lets the prompt go on without us"
    )
    idle_seconds: Annotated[float, Field(ge=1.0)] = Field(
        1800.0, description="seconds without a request after which the daemon leaves"
    )
    embedding_model: str = Field(
        "bundled/all-MiniLM-L6-v2", description="a fastembed model name, the bundled one, or none for full text alone"
    )
    embedding_cache: str = Field("", description="folder of downloaded fastembed models; only for models not bundled")
    embedding_download: bool = Field(False, description="allow fastembed to fetch a model that is not on this machine")
    embedding_threads: Annotated[int, Field(ge=1, le=16)] = Field(1, description="threads of the embedding model")
    log_level: LogLevel = Field("INFO", description="detail of the daemon's log; no level logs a prompt")

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, env_settings)


def load(home: Home) -> Settings:
    """The settings in force. Raises ConfigError for a file that does not parse or a value that is not allowed."""
    file_values = _file_values(home.config)
    from_environment = {key for key in Settings.model_fields if _variable(key) in os.environ}
    try:
        return Settings(**{key: value for key, value in file_values.items() if key not in from_environment})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else "?"
        origin = f"the environment variable {_variable(key)}" if key in from_environment else str(home.config)
        raise ConfigError(f"{key} in {origin}: {first['msg'].lower()}; see `cems config`") from None


def recall_policy(settings: Settings) -> RecallPolicy:
    """The part of the settings that recall uses."""
    return RecallPolicy(**{field.name: getattr(settings, field.name) for field in fields(RecallPolicy)})


def describe(home: Home) -> list[dict[str, Any]]:
    """Each setting: key, value, origin (`environment`, `file`, `default`), variable and help."""
    settings = load(home)
    in_file = _file_values(home.config)
    rows = []
    for key, field in Settings.model_fields.items():
        origin = "environment" if _variable(key) in os.environ else "file" if key in in_file else "default"
        rows.append(
            {
                "key": key,
                "value": getattr(settings, key),
                "origin": origin,
                "env": _variable(key),
                "help": field.description,
            }
        )
    return rows


def set_value(home: Home, key: str, text: str) -> Any:
    """Write one setting to config.toml, keeping its comments; returns the parsed value. Raises ConfigError."""
    _known(key)
    try:
        # The environment wins over init values nowhere here: only this one field is looked at.
        value = Settings.__pydantic_validator__.validate_assignment(Settings.model_construct(), key, _literal(text))
        parsed = getattr(value, key) if not isinstance(value, tuple) else value[0][key]
    except ValidationError as error:
        raise ConfigError(f"{key}: {error.errors()[0]['msg'].lower()}; nothing was changed") from None
    document = _document(home.config)
    document[key] = parsed
    _write(home.config, tomlkit.dumps(document))
    return parsed


def unset_value(home: Home, key: str) -> bool:
    """Take one setting out of config.toml; False when it was not there."""
    _known(key)
    document = _document(home.config)
    if key not in document:
        return False
    del document[key]
    _write(home.config, tomlkit.dumps(document))
    return True


def _variable(key: str) -> str:
    return f"CEMS_{key.upper()}"


def _known(key: str) -> None:
    if key not in Settings.model_fields:
        raise ConfigError(f"there is no setting {key!r}; `cems config` lists them")


def _literal(text: str) -> Any:
    try:
        return tomlkit.parse(f"x = {text}")["x"].unwrap()
    except Exception:  # noqa: BLE001 - any text that is no TOML literal is meant as a string
        return text


def _file_values(path: Path) -> dict[str, Any]:
    return {key: value for key, value in _document(path).unwrap().items() if key in Settings.model_fields}


def _document(path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return tomlkit.document()
    except (tomlkit.exceptions.ParseError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML ({error}); mend it or move it away") from None


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
