"""Settings: the environment before the file before the default; each says where it came from; a bad one is named."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.core.config import ConfigError, Settings, describe, load, recall_policy, set_value, unset_value
from cems.core.paths import Home, cems_home


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().removeprefix("CEMS_").lower() in Settings.model_fields:
            monkeypatch.delenv(name)


def origins(home: Home) -> dict[str, str]:
    return {row["key"]: row["origin"] for row in describe(home)}


def test_without_a_file_every_setting_has_its_default(home: Home) -> None:
    assert load(home) == Settings.model_construct()
    assert set(origins(home).values()) == {"default"}
    assert not home.config.exists()


def test_the_environment_comes_before_the_file_and_the_file_before_the_default(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.config.write_text('token_budget = 500\nmax_memories = 3\ninject = "trusted"\n')
    monkeypatch.setenv("CEMS_TOKEN_BUDGET", "700")
    loaded = load(home)
    assert (loaded.token_budget, loaded.max_memories, loaded.inject, loaded.gate_threshold) == (700, 3, "trusted", 0.3)
    told = origins(home)
    assert (told["token_budget"], told["max_memories"], told["gate_threshold"]) == ("environment", "file", "default")
    row = next(row for row in describe(home) if row["key"] == "token_budget")
    assert (row["value"], row["env"]) == (700, "CEMS_TOKEN_BUDGET")
    assert row["help"]


@pytest.mark.parametrize(
    ("name", "value", "origin"), [("CEMS_TOKEN_BUDGET", "", "file"), ("cems_token_budget", "900", "environment")]
)
def test_an_empty_variable_is_none_and_case_does_not_matter(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str, value: str, origin: str
) -> None:
    home.config.write_text("token_budget = 500\n")
    monkeypatch.setenv(name, value)
    assert load(home).token_budget == (900 if value else 500)
    assert origins(home)["token_budget"] == origin


@pytest.mark.parametrize("text", ["nope", "3000", "-1", "1.5"])
def test_a_bad_variable_is_named(home: Home, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("CEMS_TOKEN_BUDGET", text)
    with pytest.raises(
        ConfigError, match="token_budget in the environment variable CEMS_TOKEN_BUDGET: input should be"
    ):
        load(home)


def test_a_bad_value_in_the_file_is_named_unless_the_environment_replaces_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.config.write_text('log_level = "loud"\n')
    with pytest.raises(ConfigError, match=r"log_level in .*config\.toml: input should be 'DEBUG', 'INFO'"):
        load(home)
    monkeypatch.setenv("CEMS_LOG_LEVEL", "debug")
    assert load(home).log_level == "DEBUG"


@pytest.mark.parametrize(
    "content", [b"token_budget = ", b"= 5", b"[a\n", b"a = 1\na = 2\n", b"\xff\xfe", b"token_budget 5"]
)
def test_a_file_that_is_no_toml_is_refused_and_left_as_it_is(home: Home, content: bytes) -> None:
    home.config.write_bytes(content)
    for attempt in (
        lambda: load(home),
        lambda: describe(home),
        lambda: set_value(home, "max_memories", "5"),
        lambda: unset_value(home, "inject"),
    ):
        with pytest.raises(ConfigError, match=r"config\.toml is not valid TOML .*; mend it or move it away"):
            attempt()
    assert home.config.read_bytes() == content


def test_a_folder_in_place_of_the_file_is_named(home: Home) -> None:
    home.config.mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(home)


def test_a_byte_order_mark_does_no_harm(home: Home) -> None:
    home.config.write_bytes(b"\xef\xbb\xbftoken_budget = 500\r\n")
    assert load(home).token_budget == 500


def test_a_setting_that_does_not_exist_is_warned_of(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.config.write_text("token_buget = 500\n")
    with caplog.at_level(logging.WARNING, "cems.config"):
        assert load(home).token_budget == 2000
    assert "settings that do not exist: token_buget" in caplog.text


# -- writing ---------------------------------------------------------------------------------------------------------

WRITTEN = """# My settings
token_budget = 500 # enough for me

# how many
max_memories = 3

[other]  # somebody else's
key = "value"
"""


def test_setting_and_unsetting_keep_comments_and_order(home: Home) -> None:
    home.config.write_text(WRITTEN)
    assert set_value(home, "token_budget", "600") == 600
    assert home.config.read_text() == WRITTEN.replace("500", "600")
    assert set_value(home, "inject", "trusted") == "trusted"
    assert load(home).inject == "trusted"
    assert unset_value(home, "inject") is True
    assert unset_value(home, "inject") is False
    assert unset_value(home, "max_memories") is True
    kept = home.config.read_text()
    assert all(
        part in kept
        for part in ("# My settings", "# enough for me", "# how many", "[other]  # somebody else's", 'key = "value"')
    )
    assert "max_memories" not in kept
    assert load(home).token_budget == 600


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("token_budget", "600", 600), ("gate_threshold", "0.5", 0.5), ("gate_threshold", "1", 1.0), ("embedding_download", "true", True),
        ("embedding_download", "off", False), ("log_level", "debug", "DEBUG"), ("embedding_model", "none", "none"),
        ("embedding_model", "123", "123"), ("embedding_model", '"BAAI/bge"', "BAAI/bge"), ("embedding_cache", "/a b/ü#x", "/a b/ü#x"),
        ("embedding_cache", "C:\\models", "C:\\models"), ("embedding_cache", "", ""), ("embedding_cache", "2026-01-01", "2026-01-01"),
    ],
)  # fmt: skip
def test_what_is_typed_becomes_a_value_of_the_settings_own_type(home: Home, key: str, text: str, value: object) -> None:
    assert set_value(home, key, text) == value
    assert getattr(load(home), key) == value
    assert type(getattr(load(home), key)) is type(value)


@given(st.text(max_size=30))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_text_that_is_accepted_is_read_back(home: Home, text: str) -> None:
    try:
        value = set_value(home, "embedding_cache", text)
    except (ConfigError, UnicodeEncodeError):
        return
    assert load(home).embedding_cache == value


@pytest.mark.parametrize(
    ("key", "text"), [("token_budget", "many"), ("token_budget", "1"), ("inject", "all"), ("hook_deadline", "0")]
)
def test_a_bad_value_is_refused_and_nothing_is_changed(home: Home, key: str, text: str) -> None:
    home.config.write_text(WRITTEN)
    with pytest.raises(ConfigError, match=f"{key}: .*; nothing was changed"):
        set_value(home, key, text)
    assert home.config.read_text() == WRITTEN


def test_an_unknown_setting_is_refused(home: Home) -> None:
    for attempt in (lambda: set_value(home, "colour", "red"), lambda: unset_value(home, "colour")):
        with pytest.raises(ConfigError, match="there is no setting 'colour'; `cems config` lists them"):
            attempt()
    assert not home.config.exists()


def test_setting_does_not_look_at_the_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEMS_TOKEN_BUDGET", "nonsense")
    assert set_value(home, "token_budget", "600") == 600
    assert home.config.read_text() == "token_budget = 600\n"


def test_the_file_is_its_owners_alone_and_nothing_else_is_left(home: Home, tmp_path: Path) -> None:
    set_value(home, "token_budget", "600")
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o600
    assert [path.name for path in home.root.iterdir() if path.is_file()] == ["config.toml"]
    fresh = Home(tmp_path / "not" / "yet")
    set_value(fresh, "token_budget", "600")
    assert stat.S_IMODE(fresh.root.stat().st_mode) == 0o700


def test_a_link_to_the_file_stays_a_link(home: Home, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.toml"
    kept.write_text("# mine\n")
    home.config.symlink_to(kept)
    set_value(home, "token_budget", "600")
    assert home.config.is_symlink()
    assert kept.read_text() == "# mine\ntoken_budget = 600\n"


def test_recall_gets_its_part_of_the_settings(home: Home) -> None:
    home.config.write_text('token_budget = 500\ninject = "trusted"\n')
    policy = recall_policy(load(home))
    assert (policy.token_budget, policy.inject, policy.max_memories) == (500, "trusted", 8)


# -- the home --------------------------------------------------------------------------------------------------------


def test_the_home_is_named_by_the_environment_and_always_absolute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert cems_home({}).root == cems_home({"CEMS_HOME": ""}).root == tmp_path / ".cems"
    assert cems_home({"CEMS_HOME": "~/other"}).root == tmp_path / "other"
    assert cems_home({"CEMS_HOME": "relative"}).root == tmp_path / "relative"


def test_the_home_and_its_folders_are_their_owners_alone(tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir(mode=0o755)
    (root / "kept").write_text("x")
    Home(root).create()
    folders = [root, *(path for path in root.iterdir() if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert {path.name for path in folders[1:]} == {"keys", "logs", "bin"}
    assert (root / "kept").read_text() == "x"
