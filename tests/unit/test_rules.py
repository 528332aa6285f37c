"""Gate rules: how one is read, and which calls it is about."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cems.core.rules.patterns import Call, Glob
from cems.core.rules.rule import BadRule, Rule, parse, with_severity
from cems.core.rules.shell import take_apart

FORCE = "Bash: git push --force* — ask first"
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


# -- reading


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FORCE, Rule(("Bash",), "git push --force*", "ask first", "confirm")),
        ("Bash: rm -rf /* -- never", Rule(("Bash",), "rm -rf /*", "never", "block")),
        ("Bash: npm install* - we use pnpm here", Rule(("Bash",), "npm install*", "we use pnpm here", "block")),
        ("  [warn]  Edit | Write :  *.lock – generated", Rule(("Edit", "Write"), "*.lock", "generated", "warn")),
        ("[ASK] mcp__db__*: *DROP* — why?", Rule(("mcp__db__*",), "*DROP*", "why?", "confirm")),
        ("Bash: terraform apply*", Rule(("Bash",), "terraform apply*", "", "block")),
        ("shell: ls", Rule(("Bash",), "ls", "", "block")),
        ("*: *prod*—careful", Rule(("*",), "*prod*—careful", "", "block")),
        ("*: *prod* — careful", Rule(("*",), "*prod*", "careful", "warn")),
        ("Bash: `git checkout -- *` - use git restore", Rule(("Bash",), "git checkout -- *", "use git restore", "block")),
        ("Bash: git checkout -- * — use git restore - or ask", Rule(("Bash",), "git checkout -- *", "use git restore - or ask", "confirm")),
        ("Bash: cat - ", Rule(("Bash",), "cat -", "", "block")),
        ("WebFetch: https://example.com/* — never", Rule(("WebFetch",), "https://example.com/*", "never", "block")),
        ("Bash: git\n push  -f*\n— ask", Rule(("Bash",), "git push -f*", "ask", "confirm")),
    ],
)  # fmt: skip
def test_a_rule_is_read(text: str, expected: Rule) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("reason", "severity"),
    [
        ("", "block"), ("never", "block"), ("we use pnpm", "block"), ("don't, it deletes the index", "block"),
        ("ask first", "confirm"), ("only with my approval", "confirm"), ("check with me", "confirm"),
        ("never without asking", "confirm"), ("do not, unless I say so", "confirm"), ("needs confirmation", "confirm"),
        ("be careful: it is slow", "warn"), ("Note that it costs money", "warn"), ("remember to run the tests", "warn"),
        ("this task is done by CI", "block"),
    ],
)  # fmt: skip
def test_without_a_severity_the_reason_decides(reason: str, severity: str) -> None:
    assert parse(f"Bash: x — {reason}").severity == severity
    # What is named counts, in the text before the memory's kind.
    assert parse(f"Bash: x — {reason}", "warn").severity == "warn"
    assert parse(f"[block] Bash: x — {reason}", "warn").severity == "block"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("git push --force — never", "begins with the tool"),
        ("https://example.com — never", "begins with the tool"),
        ("", "begins with the tool"),
        ("Bash:", "pattern is missing"),
        ("Bash: — never", "pattern is missing"),
        ("[maybe] Bash: x", "is no severity"),
        ("Bash: git checkout -- * - never", "backquotes"),
        (f"Bash: {'x' * 301}", "at most 300"),
        (f"Bash: x — {'y' * 401}", "at most 400"),
    ],
)
def test_a_bad_rule_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(BadRule, match=said) as raised:
        parse(text)
    assert "\n" not in str(raised.value)


def test_a_severity_is_put_in_front_and_does_not_contradict() -> None:
    assert with_severity(FORCE, "warn") == f"[warn] {FORCE}"
    assert with_severity(f"[ask] {FORCE}", "confirm") == f"[ask] {FORCE}"
    with pytest.raises(BadRule, match="itself"):
        with_severity(f"[warn] {FORCE}", "block")
    with pytest.raises(BadRule, match="no severity"):
        with_severity(FORCE, "hard")


@UNHURRIED
@given(st.text(max_size=400))
def test_no_text_makes_reading_fail_otherwise(text: str) -> None:
    for each in (text, f"Bash: {text}"):
        try:
            rule = parse(each)
        except BadRule:
            continue
        rule.holds(Call("Bash", text))


# -- commands


def holds(rule: str, subject: str, tool: str = "Bash", folders: tuple[str, ...] = ()) -> bool:
    return parse(rule).holds(Call(tool, subject, folders))


@pytest.mark.parametrize(
    "command",
    [
        "git push --force",
        "  git   push --force  ",
        "cd x && git push --force origin",
        "cd x; git push --force; ls",
        "make || git push --force",
        "ls | xargs -n 1 git push --force",
        "FOO=1 BAR='a b' git push --force",
        "sudo -u me FOO=1 git push --force",
        "env -i PATH=/bin timeout -k 5 10 nice -n 5 git push --force",
        "git -C dir -c a.b=c --no-pager push --force",
        "git push origin main --force",
        "git push --force-with-lease",
        "(git push --force)",
        "{ git push --force; }",
        "echo $(git push --force)",
        'echo "a $(git push --force) b"',
        "x=`git push --force`",
        "cat <(git push --force)",
        "bash -c 'git push --force'",
        "/bin/bash -lc 'cd x && git push --force'",
        'eval "git push --force"',
        "git push \\\n --force",
        "ls\ngit push --force",
        "if true; then git push --force; fi",
        "for b in a c; do git push --force origin $b; done",
        "f() { git push --force; }; f",
        "case $x in a) git push --force;; esac",
        "git 'push' \"--force\"",
        "\\git push --force",
        "/usr/bin/git push --force",
        "git push --force > log 2>&1",
        "2>/dev/null git push --force",
        "git push --force # it is mine",
        "cat <<E\nhello\nE\ngit push --force",
        "cat <<-'E'\n\thello\n\tE\ngit push --force",
        "bash <<E\ngit push --force\nE",
        "bash <<< 'git push --force'",
        "find . -name .git -execdir git push --force \\;",
        "git commit -m \"$(cat <<'E'\nit's (a \"text\nE\n)\" && git push --force",
        "echo 'the quote is open; git push --force",
        "git push --force &",
        "[[ a == b ]] && git push --force",
        "x=$((1 << 2)); git push --force",
    ],
)
def test_a_command_is_caught_wherever_it_stands(command: str) -> None:
    assert holds(FORCE, command)


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push --follow-tags",
        "git pushx --force",
        "echo git push --force",
        "git commit -m 'git push --force'",
        "git commit -m \"$(cat <<'E'\ngit push --force\nE\n)\"",
        "cat <<E > notes\ngit push --force\nE",
        "# git push --force",
        "git log --force; git push",
        "grep -rn 'git push --force' .",
        "git push -- --force",
        "",
    ],
)
def test_what_only_speaks_of_it_is_no_such_command(command: str) -> None:
    assert not holds(FORCE, command)


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("git push", "git push origin", True),
        ("git push", "git pushy", False),
        ("git push:*", "git push origin", True),
        ("rm -rf *", "rm -fr build", True),
        ("rm -rf *", "rm -r -f build", True),
        ("rm -rf *", "rm -r build", False),
        ("rm -rf *", "rm --recursive build", False),
        ("npm publish --access=public", "npm publish pkg --access=public", True),
        ("npm publish --access", "npm publish --access=public", True),
        ("git checkout -- *", "git checkout -- a", True),
        ("git checkout -- *", "git checkout main", False),
        ("curl * | sh", "cd x && curl -fsS https://x.dev/i |  sh", True),
        ("curl * | sh", "curl https://x.dev/i -o f", False),
        ("* > /etc/*", "echo a > /etc/hosts", True),
        ('psql -c "DROP*"', "psql -c 'DROP TABLE a'", True),
        ("*DROP TABLE*", "psql -c 'DROP TABLE a'", True),
        ("make deploy?prod", "make deploy-prod", True),
        ("make deploy?prod", "make deployprod", False),
        ("sudo *", "cd x && sudo ls", True),
        ("./deploy.sh*", "./deploy.sh --now", True),
        ("*", "anything at all", True),
    ],
)
def test_patterns_of_commands(pattern: str, command: str, expected: bool) -> None:
    assert holds(f"Bash: `{pattern}`", command) is expected


# -- paths and the rest


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.env", "/p/.env", True),
        ("*.env", "/p/deep/prod.env", True),
        ("*.env", ".env", True),
        ("*.env", "/p/.env.example", False),
        (".env*", "/p/deep/.env.local", True),
        ("migrations", "/p/db/migrations/001.sql", True),
        ("secrets/", "secrets/a/b", True),
        ("src/*.py", "/p/src/deep/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("./src/*.py", "/p/sub/../src/a.py", True),
        ("src/*.py", "/p/other/src/a.py", False),
        ("**/src/*.py", "/p/other/src/a.py", True),
        ("**/src/*.py", "src/a.py", True),
        ("/p/src", "src/a.py", True),
        ("/etc/*", "../etc/passwd", True),
        ("a.py", "/p/sub/a.py", True),
        ("sub/a.py", "a.py", True),
        ("p", "/p/a.py", False),
    ],
)
def test_patterns_of_paths(pattern: str, path: str, expected: bool) -> None:
    folders = ("/p/sub", "/p") if path == "a.py" else ("/p",)
    assert holds(f"Write: {pattern}", path, "Write", folders) is expected


def test_a_home_folder_is_meant_by_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/dev")
    assert holds("Read: ~/.ssh/*", "/home/dev/.ssh/id_ed25519", "Read")
    assert not holds("Read: ~/.aws/*", "/home/dev/.ssh/id_ed25519", "Read")


def test_of_several_paths_one_is_enough() -> None:
    assert holds("Edit: *.env", "a.py\nb/.env", "Edit", ("/p",))
    assert not holds("Edit: *.env", "a.py\nb.py", "Edit", ("/p",))


@pytest.mark.parametrize(
    ("rule", "tool", "subject", "expected"),
    [
        ("Edit: *.env", "Write", ".env", True),
        ("Write: *.env", "NotebookEdit", ".env", True),
        ("Edit: *.env", "Read", ".env", False),
        ("Edit|Read: *.env", "Read", ".env", True),
        ("bash: ls", "Bash", "ls", True),
        ("Bash: ls", "bashful", "ls", False),
        ("mcp__github__*: *", "mcp__github__merge", "{}", True),
        ("mcp__github__*: *", "mcp__gitlab__merge", "{}", False),
        ('mcp__db__query: drop table', "mcp__db__query", '{"sql":"drop table a"}', True),
        ('mcp__db__query: *"sql":"drop*', "mcp__db__query", '{"sql":"drop table a"}', True),
        ('mcp__db__query: drop*', "mcp__db__query", '{"sql":"drop table a"}', False),
        ("WebFetch: example.com/*", "WebFetch", "https://www.example.com/a", True),
        ("WebFetch: https://example.com/*", "WebFetch", "https://example.com/a", True),
        ("WebFetch: example.com/*", "WebFetch", "https://example.org/example.com/", False),
        ("*: *.env", "Write", "a/.env", True),
        ("*: *.env", "Bash", "cat a/.env", True),
    ],
)  # fmt: skip
def test_which_tool_a_rule_is_about(rule: str, tool: str, subject: str, expected: bool) -> None:
    assert holds(rule, subject, tool) is expected


# -- globs and time


@UNHURRIED
@given(st.text("ab*?", max_size=12), st.text("ab", max_size=12))
def test_a_glob_is_what_a_regular_expression_says(pattern: str, text: str) -> None:
    import re

    translated = "".join({"*": ".*", "?": "."}.get(char, char) for char in pattern)
    assert Glob(pattern).matches(text) is bool(re.fullmatch(translated, text))


HOSTILE = [
    "git " + "a;" * 16_000,
    "git " + "'x' " * 8_000,
    "git " + "(" * 32_000,
    "git $(" * 8_000,
    "git " + "${a" * 10_000,
    "git <<E\n" * 4_000,
    "git " + "`a` " * 8_000,
    "bash -c 'git " + "a " * 16_000 + "'",
    "git " + "\\" * 32_000,
    "git push " + "-a " * 10_000,
    "git " + '"$(' * 10_000,
]


@pytest.mark.parametrize("command", HOSTILE, ids=lambda text: text[:12])
def test_no_command_takes_long(command: str) -> None:
    rules = [
        parse("Bash: git push --force* — no"),
        parse("Bash: `git *a*a*a*a*a*a*b`"),
        parse("Bash: `git " + "?*" * 60 + "b`"),
    ]
    began = time.process_time()
    for rule in rules:
        rule.holds(Call("Bash", command[:32_768]))
    assert time.process_time() - began < 1.0


@UNHURRIED
@given(st.text(st.sampled_from(list("ab '\"\\$`;&|<>(){}#\n=-ES")), max_size=80))
def test_any_command_line_can_be_taken_apart(text: str) -> None:
    line = take_apart(text)
    assert all(all(isinstance(word, str) for word in command) and command for command in line.commands)


def test_of_a_line_with_too_many_commands_the_whole_text_is_looked_at() -> None:
    line = "a;" * 500 + "git push --force"
    assert not take_apart(line).complete
    assert len(take_apart(line).commands) < 500
    assert holds(FORCE, line)
    assert take_apart("a;" * 300).complete
