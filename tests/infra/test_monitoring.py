"""Dashboard and alarms name figures that exist."""

import json

from handlers.watchdog import SHOWN
from infra.monitoring import PARKED, SWEEP_LAG, WATCHDOG_FIGURES
from piton.ports import Timer
from tests.infra.synthesis import Assembly


def test_figures_are_those_that_every_sweep_writes() -> None:
    """A graph or an alarm of another figure would have no data."""
    assert set(WATCHDOG_FIGURES) == {counter.value for counter in SHOWN}
    assert PARKED in WATCHDOG_FIGURES


def test_the_dashboard_shows_what_the_watchdog_does(prod: Assembly) -> None:
    (dashboard,) = prod.of_type("AWS::CloudWatch::Dashboard")
    body = json.loads(prod.text(dashboard["DashboardBody"]))
    shown = {
        tuple(metric[:6])
        for widget in body["widgets"]
        for metric in widget["properties"]["metrics"]
        if metric[0] == "Piton"
    }
    assert shown == {
        ("Piton", name, "service", "watchdog", "stage", "prod") for name in WATCHDOG_FIGURES
    }


def test_failing_and_missing_sweeps_alarm(prod: Assembly) -> None:
    watchdog = prod.named("AWS::Lambda::Function", "Handler", "handlers.watchdog.handler")
    dimensions = [{"Name": "FunctionName", "Value": {"Ref": watchdog.id}}]
    alarms = {
        alarm["MetricName"]: alarm
        for alarm in prod.of_type("AWS::CloudWatch::Alarm")
        if alarm["Dimensions"] == dimensions
    }
    assert set(alarms) == {"Errors", "Invocations"}
    assert alarms["Invocations"]["ComparisonOperator"] == "LessThanThreshold"
    assert alarms["Invocations"]["TreatMissingData"] == "breaching"


def test_a_watchdog_that_falls_behind_alarms(prod: Assembly) -> None:
    assert Timer.SWEEP_LAG.value == SWEEP_LAG
    alarm = prod.named("AWS::CloudWatch::Alarm", "MetricName", SWEEP_LAG)
    assert (alarm["Threshold"], alarm["Statistic"]) == (5 * 60 * 1000, "Maximum")
    assert alarm["DatapointsToAlarm"] == alarm["EvaluationPeriods"] == 5


def test_a_parked_execution_alarms(prod: Assembly) -> None:
    alarm = prod.named("AWS::CloudWatch::Alarm", "MetricName", PARKED)
    assert alarm["Namespace"] == "Piton"
    assert {d["Name"]: d["Value"] for d in alarm["Dimensions"]} == {
        "service": "watchdog",
        "stage": "prod",
    }
