#!/usr/bin/env bash
# Builds the wheel and uses it as a stranger would: from another folder, in a fresh environment, without MindSpore.
#
#     tests/wheel.sh PYTHON [BUNDLE]
#
# PYTHON has the package `build`; BUNDLE is the bundle to analyze, by default the first below fixtures/.
set -euo pipefail
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP

fail() {
    echo "wheel.sh: $*" >&2
    exit 1
}

[ $# -ge 1 ] || fail "usage: tests/wheel.sh PYTHON [BUNDLE]"
python=$(command -v "$1") || fail "there is no $1"
case $python in /*) ;; *) python=$PWD/$python ;; esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bundle=${2:-$(find "$root/fixtures" -name '*.h5' 2>/dev/null | sort | head -n 1)}
[ -f "$bundle" ] || fail "there is no bundle to analyze"
bundle=$(cd "$(dirname "$bundle")" && pwd)/$(basename "$bundle")

work=$(mktemp -d "${TMPDIR:-/tmp}/wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT

echo "Building the wheel ..."
# From a copy: a build leaves build/ and *.egg-info behind, and would take in what an earlier one left.
mkdir "$work/source"
tar -C "$root" -cf - --exclude=__pycache__ --exclude='*.egg-info' pyproject.toml README.md forensics templates |
    tar -C "$work/source" -xf -
"$python" -m build --wheel --outdir "$work/dist" "$work/source" >"$work/build.log" 2>&1 || {
    tail -n 30 "$work/build.log" >&2
    fail "the wheel could not be built"
}
wheels=("$work"/dist/*.whl)
[ ${#wheels[@]} -eq 1 ] || fail "one wheel was expected, not ${#wheels[@]}"
"$python" -m zipfile -l "${wheels[0]}" >"$work/listing"
grep -q '^forensics/templates/.*\.j2' "$work/listing" || fail "the wheel holds no template"
grep -q '^forensics/py.typed' "$work/listing" || fail "the wheel does not say that it is typed"
! grep -Eq '^(tests|docs|benchmarks|fixtures|templates)/' "$work/listing" || fail "the wheel holds more than the package"

echo "Installing $(basename "${wheels[0]}") into a fresh environment ..."
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "${wheels[0]}"

mkdir "$work/elsewhere"
cd "$work/elsewhere"
cp "$bundle" died.h5
for name in mindspore sklearn pytest; do
    ! "$work/venv/bin/python" -c "import $name" 2>/dev/null || fail "$name is there, so this proves nothing"
done
where=$("$work/venv/bin/python" -c 'import forensics; print(forensics.__file__)')
case $where in "$work"/venv/*) ;; *) fail "the package comes from $where" ;; esac

command=$work/venv/bin/msforensics
echo "Using it ..."
"$command" --version | grep -Fq "$("$work/venv/bin/python" -c 'import forensics; print(forensics.__version__)')" ||
    fail "--version does not tell the version"
"$command" rules >/dev/null
"$command" analyze died.h5 --format text >verdict.txt
[ -s verdict.txt ] || fail "the text is empty"
"$command" analyze died.h5 --format json >verdict.json
"$command" analyze died.h5 -o report.html >/dev/null
"$command" analyze died.h5 >beside.txt
[ -s died.html ] || fail "no report was put beside the bundle"
grep -Fq died.html beside.txt || fail "the report's path was not printed"
"$work/venv/bin/python" - <<'CHECK' || fail "the verdict is not the same everywhere"
import html
import json
import pathlib

verdict = json.loads(pathlib.Path("verdict.json").read_text("utf-8"))["verdict"]
page = html.unescape(pathlib.Path("report.html").read_text("utf-8"))
text = " ".join(pathlib.Path("verdict.txt").read_text("utf-8").split())
headline = " ".join(verdict["headline"].split()).casefold()
assert verdict["cause"] and headline, verdict
assert page.lstrip().lower().startswith("<!doctype html"), page[:100]
assert verdict["cause"] in page and headline in " ".join(page.split()).casefold(), "the page lacks the verdict"
assert verdict["cause"] in text and headline in text.casefold(), "the text lacks the verdict"
assert "<script src" not in page and "<link" not in page, "the page needs other files"
CHECK
echo "The wheel works: $("$work/venv/bin/python" -c \
    'import json; print(json.load(open("verdict.json"))["verdict"]["headline"])')"
