"""Calls of the hooks in `hookspecs`, one plugin at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pluggy
import pytest

from grb_check.errors import UsageError, count
from grb_check.files.outputs import reason
from grb_check.files.text import fit_line
from grb_check.settings.registered_names import RegisteredNames, Registry
from grb_check.settings.settings import RunSettings
from grb_check.user_code.calls import short_traceback

_RAISED = (Exception, SystemExit, pytest.fail.Exception, pytest.skip.Exception)


def registered_names(config: pytest.Config) -> RegisteredNames:
    """Return the names that plugins register.

    Raises:
        UsageError: a plugin registers what is refused, or raises; the message names it.
    """
    names = RegisteredNames()
    for plugin, call in _calls(config, "pytest_grb_register"):
        try:
            call(registry=Registry(plugin, names))
        except UsageError as error:
            raise UsageError(f"plugin {plugin}: {error}") from None
        except _RAISED as error:
            raise UsageError(
                f"plugin {plugin}: pytest_grb_register raised:\n{short_traceback(error)}"
            ) from None
    return names


def pass_settings(config: pytest.Config, settings: RunSettings) -> None:
    """Call the hook that receives the settings.

    Raises:
        UsageError: a plugin refuses them, or raises; the message names it.
    """
    for plugin, call in _calls(config, "pytest_grb_settings"):
        try:
            call(settings=settings, config=config)
        except UsageError:
            raise
        except _RAISED as error:
            raise UsageError(
                f"plugin {plugin}: pytest_grb_settings raised:\n{short_traceback(error)}"
            ) from None


class PluginHooks:
    """Calls of hooks during a run: a plugin that fails costs neither the others nor the run.

    Args:
        config: pytest's.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failures: dict[tuple[str, str], list[str]] = {}

    def call(
        self, hook: str, *, passing: tuple[type[BaseException], ...] = (), **arguments: object
    ) -> None:
        """Call the implementations of a hook.

        Args:
            hook: its name.
            passing: what may end the run.
            arguments: of the hook, besides `config`.
        """
        for plugin, call in _calls(self._config, hook):
            try:
                call(config=self._config, **arguments)
            except passing:
                raise
            except BaseException as error:
                self._failures.setdefault((plugin, hook), []).append(reason(error))

    @property
    def failures(self) -> list[str]:
        """Return one line for each plugin and hook that raised, with the first reason."""
        return [
            fit_line(f"plugin {plugin}: {hook} raised {count(len(reasons), 'time')}: {reasons[0]}")
            for (plugin, hook), reasons in self._failures.items()
        ]


def _calls(config: pytest.Config, name: str) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the plugins that implement a hook, in pytest's order, each with its implementation.

    They are called without pluggy, whose caller of a part of the plugins needs hashable ones. A
    conftest.py has its path as the name of the plugin.
    """
    for implementation in reversed(getattr(config.hook, name).get_hookimpls()):
        yield implementation.plugin_name, partial(_call, implementation)


def _call(implementation: pluggy.HookImpl, **arguments: object) -> None:
    """Call an implementation with those of the arguments that it declares.

    Raises:
        TypeError: it is a wrapper.
    """
    if implementation.wrapper or implementation.hookwrapper:
        raise TypeError("each implementation is called by itself; write it without wrapper=True")
    implementation.function(*(arguments[name] for name in implementation.argnames))
