"""The fixtures in a user's own tests, and the ini file."""

from __future__ import annotations

import pytest
from plugin_names import QUICK


def test_a_users_test_asserts_on_its_own_outcome(project: pytest.Pytester) -> None:
    """The marker names the case, the fixture has the figures."""
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd", repeats=1)
        def test_mine(grb_outcome):
            assert grb_outcome.case.id == "tiny/easy/injection/rnd"
            assert 0 <= grb_outcome.attacked <= 1
            assert len(grb_outcome.repeats) == 1
            assert grb_outcome.drop < 0.9

        @pytest.mark.grb(dataset="./tiny", difficulty=["easy", "hard"], attack="dice", repeats=1)
        def test_both(grb_verdict):
            assert grb_verdict.passed, grb_verdict.message
        """
    )
    result = project.runpytest("--grb-model=models:build", "test_own.py", "-k", "own", "-v")
    result.assert_outcomes(passed=3, deselected=18)
    result.stdout.fnmatch_lines(["*test_both?tiny/easy/modification/dice? PASSED (drop *%)*"])


@pytest.mark.parametrize("update", [[], ["--grb-update-baseline"]])
def test_figures_without_a_verdict_make_no_baseline(
    project: pytest.Pytester, update: list[str]
) -> None:
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd", repeats=1)
        def test_mine(grb_outcome):
            assert grb_outcome.drop < 0.9
        """
    )
    args = ("--grb-model=models:build", "test_own.py", "-k", "own", "--grb-baseline=base.json")
    result = project.runpytest(*args, *update)
    result.assert_outcomes(passed=1, deselected=18)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["note: base.json not written: no case has a verdict; *"])
    result.stdout.fnmatch_lines(["*so this run fails*"])


@pytest.mark.parametrize("workers", [[], pytest.param(["-n", "1"], marks=pytest.mark.slow)])
def test_an_overridden_model_needs_no_option(project: pytest.Pytester, workers: list[str]) -> None:
    """`grb_model` in a conftest.py may return a factory or a trained module."""
    project.makeconftest(
        """
        import pytest
        from models import Net

        @pytest.fixture
        def grb_model():
            return Net
        """
    )
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd", repeats=1)
        def test_mine(grb_outcome):
            assert grb_outcome.model == "Net"
        """
    )
    result = project.runpytest(*workers)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["Net on tiny*"])


def test_an_overridden_model_reaches_the_built_in_cases(project: pytest.Pytester) -> None:
    """Fixture overrides work for the bundled suite too."""
    project.makeconftest(
        """
        import pytest
        from models import Mlp

        @pytest.fixture
        def grb_model():
            return Mlp
        """
    )
    result = project.runpytest(*QUICK)
    result.stdout.fnmatch_lines(["Mlp on tiny*"])


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("difficulty='esay'", "*unknown difficulty 'esay' (did you mean 'easy'*"),
        ("attack='rnd'", "*attack 'rnd' is ambiguous; give one of injection/rnd, modification/*"),
        ("difficulty=5", "*difficulty=5 is neither a string nor a list of strings*"),
        ("dataset=[]", "*dataset=?? is neither a string nor a list of strings*"),
        *(
            (
                f"repeats={value}",
                "*repeats=...): * is not a number of repeats; give a whole number*",
            )
            for value in ("0", "-1", "10**12", "True", "1.5", "'3'", "None", "float('nan')", "[3]")
        ),
        ("dataset=' '", "*dataset=' ' is neither a string nor a list of strings, none of them*"),
        ("difficulty=['easy', '']", "*difficulty=* is neither a string nor a list of strings, *"),
        ("attack='rnd\\0'", "*unknown attack*"),
        ("budget=3", "*grb takes dataset=, difficulty=*; got budget"),
    ],
)
def test_a_wrong_marker_is_a_short_collection_error(
    project: pytest.Pytester, mark: str, message: str
) -> None:
    """The message lists the arguments of the marker."""
    project.makepyfile(
        test_own=f"""
        import pytest

        @pytest.mark.grb({mark})
        def test_mine(grb_outcome):
            pass
        """
    )
    result = project.runpytest("--grb-model=models:build", "--grb-case=*/easy/*")
    result.stdout.fnmatch_lines([message])
    result.stdout.fnmatch_lines(["*test_own.py::test_mine: *"])
    result.stdout.no_fnmatch_line("*collection.py:*")


def test_what_a_test_does_not_say_is_said_by_its_class_and_its_module(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        test_own="""
        import pytest

        pytestmark = pytest.mark.grb(dataset="./tiny", attack="dice")

        @pytest.mark.grb(attack="injection/rnd", difficulty="easy")
        class TestRandom:
            @pytest.mark.grb(difficulty="hard", repeats=1)
            def test_hard(self, grb_case):
                assert grb_case.id == "tiny/hard/injection/rnd"

            def test_easy(self, grb_case):
                assert grb_case.id == "tiny/easy/injection/rnd"

        def test_module(grb_case):
            assert grb_case.id == "tiny/full/modification/dice"
        """
    )
    result = project.runpytest("--grb-model=models:build", "test_own.py", "-k", "own")
    result.assert_outcomes(passed=3, deselected=18)


def test_a_method_of_unittest_has_one_case(project: pytest.Pytester) -> None:
    """pytest makes no parameters for it, so that all other values would be left out."""
    project.makepyfile(
        test_own="""
        import unittest
        import pytest

        @pytest.mark.grb(dataset="./tiny", difficulty=["easy", "hard"], attack="injection/rnd")
        class TestOwn(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def case(self, grb_case):
                self.case = grb_case

            def test_two(self):
                assert self.case.difficulty == "easy"

            @pytest.mark.grb(difficulty="hard")
            def test_one(self):
                assert self.case.difficulty == "hard"
        """
    )
    result = project.runpytest("--grb-model=models:build", "test_own.py", "-k", "own")
    result.assert_outcomes(passed=1, errors=1, deselected=18)
    result.stdout.fnmatch_lines(["*has 2 cases, and this test cannot be made once for each*"])


def test_a_fixture_without_a_case_or_a_model_says_what_to_do(project: pytest.Pytester) -> None:
    """The two mistakes of a first attempt."""
    project.makepyfile(
        test_own="""
        import pytest

        def test_no_mark(grb_outcome):
            pass

        @pytest.mark.grb(dataset="./tiny")
        def test_no_model(grb_outcome):
            pass

        @pytest.mark.grb(dataset="./tiny")
        def test_no_dataset(grb_model):
            pass
        """
    )
    result = project.runpytest()
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*mark it with @pytest.mark.grb*", "*give --grb-model*"])


@pytest.mark.slow
def test_every_option_has_a_twin_in_the_ini_file(project: pytest.Pytester) -> None:
    """The header names the ini file as the origin."""
    project.makefile(
        ".toml",
        pytest="""
        [pytest]
        grb_model = "models:Net"
        grb_model_args = "width=8"
        grb_datasets = ["./tiny"]
        grb_difficulties = ["easy"]
        grb_attacks = ["injection/rnd"]
        grb_repeats = 1
        grb_max_drop = 0.9
        grb_min_clean = 0.1
        grb_thresholds = ["tiny/easy/* = 95%"]
        grb_store = "kept"
        """,
    )
    result = project.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "grb model: models:Net(width=8) (ini)",
            "grb datasets: tiny (ini); 1 case of suite smoke (default) x 1 repeat (ini)",
            "grb device: auto = cpu (default); store: kept (ini)",
            "grb max-drop: 0.9 (ini)",
            "grb min-clean: 0.1 (ini)",
            "grb threshold: tiny/easy/[*] = 95% (ini)",
        ]
    )
    assert (project.path / "kept").is_dir()


def test_naming_a_test_file_leaves_out_the_cases_of_an_ini_model(
    project: pytest.Pytester,
) -> None:
    """A run of one test does not wait for the suite, and the header says that it was left out."""
    project.makefile(".toml", pytest='[pytest]\ngrb_model = "models:build"\n')
    project.makepyfile(test_own="def test_own(): pass")
    result = project.runpytest("test_own.py")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["grb: no cases*"])
    more = project.runpytest("test_own.py", "--collect-only", "-q", "--grb-model=models:build")
    more.stdout.fnmatch_lines(["grb::synthetic-cora::*"])
    whole = project.runpytest(".", "--collect-only", "-q")
    whole.stdout.fnmatch_lines(["grb::synthetic-cora::*"])


def test_a_test_of_its_case_alone_is_no_measured_case(project: pytest.Pytester) -> None:
    """It may do with it what it likes, which is nothing that a report could tell."""
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.grb(dataset="./tiny", attack="injection/rnd")
        def test_of_a_case(grb_case):
            assert grb_case.dataset == "tiny"
        """
    )
    args = ("--grb-model=models:build", "test_own.py", "-k", "own")
    result = project.runpytest(*args)
    result.assert_outcomes(passed=1, deselected=18)
    result.stdout.no_fnmatch_line("*injection/rnd*")


@pytest.mark.parametrize("fixtures", ["", "grb_settings"])
def test_a_marked_test_without_a_fixture_does_not_just_pass(
    project: pytest.Pytester, fixtures: str
) -> None:
    """Nothing would be attacked."""
    project.makepyfile(
        test_own=f"""
        import pytest

        @pytest.mark.grb(dataset="./tiny", attack="injection/rnd")
        def test_robust({fixtures}):
            pass
        """
    )
    result = project.runpytest("--grb-model=models:build", "--grb-dataset=./tiny")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_own.py::test_robust is marked *grb_outcome or grb_verdict"])


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["--grb-jobs=1"], ["-n", "1"]])
def test_an_attack_that_only_a_marker_names_is_known_where_it_is_measured(
    project: pytest.Pytester, workers: list[str]
) -> None:
    """In pytest's own process and in others."""
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="attacks:Stored", repeats=1)
        def test_mine(grb_outcome):
            assert grb_outcome.case.id == "tiny/easy/injection/stored"
        """
    )
    result = project.runpytest(
        "--grb-model=attacks:untrained", "test_own.py", "-k", "own", *workers
    )
    result.assert_outcomes(passed=1, **({} if "-n" in workers else {"deselected": 18}))
