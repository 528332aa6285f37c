# Installs CEMS from this checkout on Windows, as install.sh does elsewhere.
#
# UNTESTED: nobody has run this yet. Windows is not among the systems CEMS supports; reports are welcome.
#
#   .\install.ps1 [options of `cems setup`, e.g. --dry-run, --agent claude-code, --no-permissions]
#
# Everything it writes is in CEMS_HOME (default %USERPROFILE%\.cems), but for what `cems setup` shows first.
$ErrorActionPreference = "Stop"
Set-StrictMode -Version 3

function Fail([string] $Message) {
    [Console]::Error.WriteLine("install.ps1: $Message")
    exit 1
}

$Here = $PSScriptRoot
if (-not ((Test-Path "$Here\pyproject.toml") -and (Test-Path "$Here\core"))) {
    Fail "this is not a checkout of CEMS. Clone the repository and run .\install.ps1 in it."
}
$CemsHome = if ($env:CEMS_HOME) { [IO.Path]::GetFullPath($env:CEMS_HOME) } else { Join-Path $env:USERPROFILE ".cems" }
$Environment = Join-Path $CemsHome "env"
$PythonInEnvironment = Join-Path $Environment "Scripts\python.exe"

# What the person's shell says about Python is about their programs.
foreach ($Name in "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX") {
    Remove-Item "Env:$Name" -ErrorAction SilentlyContinue
}
$env:PIP_NO_CACHE_DIR = "1"
$env:PIP_DISABLE_PIP_VERSION_CHECK = "1"
$env:PIP_NO_INPUT = "1"
$env:PYTHONUTF8 = "1"

$IsPython = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
function Find-Python {
    $Candidates = @(@("py", "-3.13"), @("py", "-3.12"), @("py", "-3.11"), @("python"), @("python3"))
    foreach ($Candidate in $Candidates) {
        if (-not (Get-Command $Candidate[0] -ErrorAction SilentlyContinue)) { continue }
        $Rest = @($Candidate | Select-Object -Skip 1)
        & $Candidate[0] @Rest -I -c $IsPython 2>$null
        if ($LASTEXITCODE -eq 0) { return & $Candidate[0] @Rest -I -c "import sys; print(sys.executable)" }
    }
    Fail "no Python 3.11 or newer was found. Install one from python.org and run this again."
}

function Step([string] $Tried, [string[]] $Words) {
    & $Words[0] @($Words | Select-Object -Skip 1)
    if ($LASTEXITCODE -ne 0) { Fail "$Tried failed. Check the network and the package index, and run this again." }
}

New-Item -ItemType Directory -Force $CemsHome | Out-Null
$Healthy = $false
if (Test-Path $PythonInEnvironment) {
    & $PythonInEnvironment -I -c $IsPython 2>$null
    $Healthy = $LASTEXITCODE -eq 0
}
if (-not $Healthy) {
    if ((Test-Path $Environment) -and -not (Test-Path "$Environment\pyvenv.cfg")) {
        Fail "$Environment is there and is not an environment of Python. Move it away, or choose another CEMS_HOME."
    }
    $Python = Find-Python
    Write-Host "Making an environment in $Environment"
    if (Test-Path $Environment) { Remove-Item -Recurse -Force $Environment }
    Step "Making the environment" @($Python, "-I", "-m", "venv", $Environment)
}

# A running daemon keeps its files open, and they could not be replaced.
$Stop = "from cems.core.paths import cems_home; from cems.core.service.client import stop_daemon; stop_daemon(cems_home())"
$env:CEMS_HOME = $CemsHome
& $PythonInEnvironment -I -c $Stop 2>$null

$Work = Join-Path ([IO.Path]::GetTempPath()) ("cems-install-" + [Guid]::NewGuid())
try {
    Write-Host "Installing CEMS; this takes a minute or two"
    $Pip = @($PythonInEnvironment, "-I", "-m", "pip")
    Step "Building the package" ($Pip + @("wheel", "--quiet", "--no-deps", "--wheel-dir", $Work, $Here))
    $Wheel = (Get-ChildItem "$Work\cems-*.whl" | Select-Object -First 1).FullName
    Step "Installing the package" ($Pip + @("install", "--quiet", $Wheel))
    # pip takes an equal version for the same program.
    Step "Installing the package" ($Pip + @("install", "--quiet", "--no-deps", "--force-reinstall", $Wheel))
}
finally {
    if (Test-Path $Work) { Remove-Item -Recurse -Force $Work }
}

& $PythonInEnvironment -I -c "from cems.core.cli.main import run; run()" setup @args
exit $LASTEXITCODE
