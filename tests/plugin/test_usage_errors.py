"""Wrong input ends with one line and exit code 4, before any work."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from plugin_names import IDS, QUICK, TINY


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--grb-model=nowhere:build"], "*nowhere*"),
        (["--grb-model=models:biuld"], "*biuld*build*"),
        (["--grb-model=models:broken"], "model models:broken raised when called:"),
        (["--grb-model-args=width=(", "--grb-model=models:Net"], "*grb-model-args*"),
        (["--grb-model-args=widht=3", "--grb-model=models:Net"], "*widht*width*"),
        (["--grb-attack=pdg"], "*unknown attack 'pdg' (did you mean 'pgd'?); allowed: *"),
        (["--grb-attack=fgsm+iteratons=5"], "*'iteratons=5' (did you mean 'iterations=VALUE'?)*"),
        (["--grb-attack=nowhere:attack"], "attack 'nowhere:attack': there is no module nowhere*"),
        (["--grb-attack=models:graph"], "attack 'models:graph' is a Data without name, scenario,*"),
        (["--grb-attack=attacks:Pgd"], "*has the name of the built-in attack injection/pgd*"),
        (["--grb-threshold=*/fgsm+iteratons=5=0.3"], "*'iteratons=5' (did you mean*"),
        (["--grb-attack=modification/wrost"], "*did you mean 'modification/worst'?*"),
        (
            ["--grb-budget=0"],
            "--grb-budget: '0' is not a budget; give a share above 0 and at most *",
        ),
        (["--grb-difficulty=esay"], "*unknown difficulty 'esay' (did you mean 'easy'?)*"),
        (["--grb-dataset=synthetic-coar"], "*synthetic-coar*synthetic-cora*"),
        (["--grb-dataset=grb-reddit"], "*grb-reddit*--grb-data*"),
        (["--grb-dataset=./nowhere"], "*nowhere*"),
        (["--grb-dataset=models:broken_graph"], "*models:broken_graph raised when called:"),
        (["--grb-dataset=pyg:Planetoid/Cora"], "*--grb-data=DIR*--grb-download*"),
        (["--grb-repeat=3"], "*there is no option --grb-repeat; did you mean --grb-repeats?"),
        (["--grb-attack=mettack"], "*unknown attack 'mettack' (did you mean 'metattack'?)*"),
        (["--grb-attack=poisoning/pgd+white-box"], "*comes before the model is trained*"),
        (
            ["--grb-attack=poisoning/tdgia", "--grb-training=inductive"],
            "*poisoning/tdgia*give --grb-training=transductive*",
        ),
        (["--grb-attack=rnd,poisoning/nettack"], "*poisoning*give --grb-training=transductive*"),
        (
            ["grb::tiny::test_attack[full/poisoning/tdgia]"],
            "*poisoning*give --grb-training=transductive*",
        ),
        (["--grb-split=random"], "*unknown split 'random'; allowed: grb, given"),
        (["-o", "grb_sources=ftp://x"], "*source 'ftp://x'*"),
        (["--grb-attack=poison/*"], "*'poison/*' matches no attack of the suite 'smoke'*"),
        (["--grb-case=tiny/esay/*"], "*'tiny/esay/*' matches none of the 2 selected cases*"),
        (["--grb-threshold=tiny/*"], "*'tiny/*' must have the form 'pattern = value'*"),
        (["--grb-threshold=*=30"], "*'30' is not a fraction*"),
        (["--grb-max-drop=much"], "*--grb-max-drop: 'much' is not a fraction*"),
        (["--grb-repeats=0"], "*--grb-repeats: '0' is not a number of repeats*"),
        (["--grb-device=gpu"], "*unknown device 'gpu'*"),
        (["--grb-data=nowhere"], "*--grb-data *nowhere' is not a directory*"),
        (["--grb-json=tiny"], "*--grb-json *tiny' cannot be written*"),
        (["--grb-json=a", "--grb-html=./a"], "*--grb-json and --grb-html are the same file*"),
        (["grb::tiny::test_attack[easy]"], "*is not the id of a grb case*"),
        (["grb::tiny::test_attack[easy/injection/pdg]"], "*unknown attack 'injection/pdg'*"),
    ],
)
def test_a_usage_error_is_one_line(project: pytest.Pytester, args: list[str], message: str) -> None:
    """The line names the given and the allowed values; no case runs."""
    base = [*QUICK[:2], *QUICK[3:]] if any("grb-model=" in arg for arg in args) else [*QUICK]
    if any("--grb-dataset" in arg for arg in args):
        base = base[1:]
    if any("--grb-attack" in arg for arg in args):
        base = [arg for arg in base if "--grb-attack" not in arg]
    result = project.runpytest(*base, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert "Traceback" not in result.stderr.str()
    result.stdout.no_fnmatch_line("*test_attack*")


@pytest.mark.parametrize("option", ["model", "attack", "dataset"])
def test_a_package_that_does_not_exist_is_refused_without_torch(
    project: pytest.Pytester, option: str
) -> None:
    """An import of torch takes most of the seconds of such a run."""
    options = {"model": "models:Net", "attack": "injection/rnd", "dataset": "./tiny"}
    given = [f"--grb-{name}={text}" for name, text in {**options, option: "nowhere:x"}.items()]
    # In a process of its own: this one has imported torch.
    result = project.run(sys.executable, "-X", "importtime", "-m", "pytest", "--grb-only", *given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {option} 'nowhere:x': there is no module nowhere*"])
    result.stderr.no_re_match_line(r".*\| torch$")


def test_options_that_select_cases_need_a_model(project: pytest.Pytester) -> None:
    """A run without --grb-model is not a green run of no cases."""
    for args in ([*TINY], ["--grb-only"], ["--grb-suite=smoke"], ["--grb-budget=0.1"], [IDS[0]]):
        result = project.runpytest(*args)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: *needs a model; add --grb-model*"])


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("features.npz", lambda a: np.where(a == a.max(), np.nan, a), "*features.npz*NaN*"),
        ("labels.npz", lambda a: a - 1, "*labels.npz*"),
        ("labels.npz", lambda a: a[:-1], "*labels.npz*159*160*"),
        ("features.npz", lambda a: a[:, 0], "*features.npz*"),
    ],
)
def test_a_dataset_at_fault_is_a_usage_error(
    project: pytest.Pytester, name: str, spoil: object, message: str
) -> None:
    """The file and its fault are named before any work."""
    path = project.path / "tiny" / name
    with np.load(path) as archive:
        array = archive["data"]
    np.savez(path, data=spoil(array))  # type: ignore[operator]
    result = project.runpytest(*QUICK)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


INI_FILES = {
    "pytest.ini": "[pytest]\n{name} = {value}\n",
    "setup.cfg": "[tool:pytest]\n{name} = {value}\n",
    "tox.ini": "[pytest]\n{name} = {value}\n",
    "pyproject.toml": "[tool.pytest]\n{name} = '{value}'\n",
    "pytest.toml": "[pytest]\n{name} = '{value}'\n",
    "old/pyproject.toml": "[tool.pytest.ini_options]\n{name} = '{value}'\n",
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("grb_repeats", "one", "grb_repeats: 'one' is not a number of repeats; give a whole *"),
        ("grb_max_drop", "half", "grb_max_drop: 'half' is not a fraction; give a number from 0 *"),
        ("grb_margin", "x", "grb_margin 'x' is not a number of accuracy points; give one from 0 *"),
        ("grb_download", "perhaps", "grb_download = 'perhaps' must be true or false; see *"),
        ("grb_junit_properties", "perhaps", "grb_junit_properties = 'perhaps' must be true or *"),
        ("grb_difficulty", "easy", "*'grb_difficulty' (did you mean 'grb_difficulties'?); allow*"),
        ("grb-max-drop", "0.5", "unknown ini value 'grb-max-drop' (did you mean 'grb_max_drop'?)*"),
        ("grb_modle", "a:b", "unknown ini value 'grb_modle' (did you mean 'grb_model'?); allowed*"),
    ],
)
def test_a_wrong_ini_value_is_a_usage_error_in_every_ini_file(
    pytester: pytest.Pytester, name: str, value: str, message: str
) -> None:
    """In our words, as on the command line; unknown names too, of which pytest only warns."""
    pytester.mkdir("old")
    for file, text in INI_FILES.items():
        path = pytester.path / file
        path.write_text(text.format(name=name, value=value))
        model = () if name == "grb_modle" else ("--grb-model=grb_check.models:gcn",)
        result = pytester.runpytest("-c", file, *model)
        assert result.ret == pytest.ExitCode.USAGE_ERROR, file
        assert result.errlines[0] == f"ERROR: {result.errlines[0].removeprefix('ERROR: ')}"
        result.stderr.fnmatch_lines([f"ERROR: {message}"])
        path.unlink()
