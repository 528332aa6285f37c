"""The settings: environment (`CEMS_*`), then `config.toml`, then the default; and where each value came from."""

from __future__ import annotations

import logging
import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import tomlkit
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from cems.core.paths import PRIVATE_DIR, PRIVATE_FILE, Home
from cems.core.policy import RecallPolicy

logger = logging.getLogger("cems.config")

_LOOPBACK = ("127.0.0.1", "::1", "localhost")

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class ConfigError(Exception):
    """A setting that cannot be used; the message names it, its origin and what is allowed."""


class Settings(BaseSettings):
    """Every setting of CEMS. A field's description is what `cems config` and the documentation show."""

    model_config = SettingsConfigDict(
        env_prefix="CEMS_", env_ignore_empty=True, extra="ignore", frozen=True, validate_default=True
    )

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
    update_index: str = Field(
        "",
        description="a release index (PEP 691) for `cems update`: https, file or loopback http; empty: nothing is asked",
    )
    auto_update: bool | None = Field(
        None,
        description="1: `cems update` runs by itself, at most once a day and never during a session; 0: looks for no release",
    )
    log_level: LogLevel = Field("INFO", description="detail of the daemon's log; no level logs a prompt")

    @field_validator("update_index")
    @classmethod
    def _release_place(cls, value: str) -> str:
        if value and not release_place(value):
            raise ValueError(
                "must be an https:// or file:/// address, or http:// of this machine itself, with no password in it"
            )
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # What `load` passes in is the file's.
        return (env_settings, init_settings)


def release_place(url: str) -> bool:
    """Whether releases may be taken from there: nobody on the way can put another file in its place. An address with a
    name or password in it is none: it is shown, and kept in notes."""
    try:
        parts = urlsplit(url)
        host, login, _ = parts.hostname or "", parts.username, parts.port
    except ValueError:
        return False
    if login is not None or not url.isprintable() or " " in parts.netloc:
        return False
    match parts.scheme:
        case "https":
            return bool(host)
        case "http":
            return host in _LOOPBACK
        case "file":
            return not host and parts.path.startswith("/")
    return False


def load(home: Home) -> Settings:
    """The settings in force. Raises ConfigError for a file that does not parse or a value that is not allowed."""
    values = _document(home.config).unwrap()
    if unknown := sorted(set(values) - set(Settings.model_fields)):
        logger.warning(
            "%s has settings that do not exist: %s; `cems config` lists them", home.config, ", ".join(unknown)
        )
    try:
        return Settings(**{key: value for key, value in values.items() if key in Settings.model_fields})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else "?"
        origin = f"the environment variable {_variable(key)}" if _in_environment(key) else str(home.config)
        raise ConfigError(f"{key} in {origin}: {_sentence(first['msg'])}; see `cems config`") from None


def recall_policy(settings: Settings) -> RecallPolicy:
    """The part of the settings that recall uses."""
    return RecallPolicy(**{field.name: getattr(settings, field.name) for field in fields(RecallPolicy)})


def describe(home: Home) -> list[dict[str, Any]]:
    """Each setting: key, value, origin (`environment`, `file`, `default`), variable and help."""
    settings = load(home)
    in_file = _document(home.config)
    rows = []
    for key, field in Settings.model_fields.items():
        origin = "environment" if _in_environment(key) else "file" if key in in_file else "default"
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
    document = _document(home.config)
    try:
        settings = Settings.__pydantic_validator__.validate_assignment(Settings.model_construct(), key, _unquoted(text))
    except ValidationError as error:
        raise ConfigError(f"{key}: {_sentence(error.errors()[0]['msg'])}; nothing was changed") from None
    value = document[key] = getattr(settings, key)
    _write(home.config, tomlkit.dumps(document))
    return value


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


def _in_environment(key: str) -> bool:
    # As pydantic reads them: in any case, and an empty one is none.
    return any(value and name.upper() == _variable(key) for name, value in os.environ.items())


def _known(key: str) -> None:
    if key not in Settings.model_fields:
        raise ConfigError(f"there is no setting {key!r}; `cems config` lists them")


def _unquoted(text: str) -> str:
    """What was typed, as an environment variable would have it; a TOML string is taken out of its quotes."""
    try:
        value = tomlkit.parse(f"x = {text}").unwrap()["x"]
    except tomlkit.exceptions.TOMLKitError:
        return text
    return value if isinstance(value, str) else text


def _sentence(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _document(path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return tomlkit.document()
    except (tomlkit.exceptions.TOMLKitError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML ({error}); mend it or move it away") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); see to its permissions") from None


def _write(path: Path, text: str) -> None:
    # Through a link to where the person keeps it: a link is not replaced by a file.
    path = path.resolve()
    path.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
