"""Each implementation of a hook is called by itself."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from grb_check.session.plugin_hooks import PluginHooks, registered_names


@dataclass
class Uploader:
    """A plugin that is an object without a hash."""

    seen: list[object]

    def pytest_grb_record(self, record: object) -> None:
        self.seen.append(record)

    def pytest_grb_register(self, registry: Any) -> None:
        registry.model("mine", "a:b")


class Wrapper:
    @pytest.hookimpl(wrapper=True)
    def pytest_grb_record(self) -> Generator[None, None, None]:
        yield


class Stops:
    def pytest_grb_record(self) -> None:
        pytest.exit("enough")


def test_a_plugin_may_be_any_object_and_none_may_be_a_wrapper(pytester: pytest.Pytester) -> None:
    """One that fails or stops costs no other."""
    config = pytester.parseconfig()
    seen: list[object] = []
    for name, plugin in (("one", Uploader(seen)), ("two", Wrapper()), ("three", Stops())):
        config.pluginmanager.register(plugin, name)
    hooks = PluginHooks(config)
    hooks.call("pytest_grb_record", record=1)
    assert seen == [1]
    assert sorted(hooks.failures) == [
        "plugin three: pytest_grb_record raised 1 time: Exit: enough",
        "plugin two: pytest_grb_record raised 1 time: TypeError: each implementation is called by "
        "itself; write it without wrapper=True",
    ]
    with pytest.raises(pytest.exit.Exception):
        hooks.call("pytest_grb_record", passing=(pytest.exit.Exception,), record=2)
    assert registered_names(config).models == {"mine": ("a:b", "one")}
