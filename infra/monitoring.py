"""Dashboard and alarms.

Only stages that ask for monitoring have them: an alarm costs about $0.10 a month, and dashboards
$3 beyond the first three of an account. The engine's own figures exist on every stage: functions
write them into their logs, and CloudWatch makes metrics of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.functions import METRICS_NAMESPACE
from infra.stage import Stage
from piton.access import Function

WATCHDOG_FIGURES: Final = (
    "ExecutionsSwept",
    "LostFrontierRecovered",
    "LostDispatchResent",
    "StalledNodeRecovered",
    "LostFinaliseRecovered",
    "DeadlinePassed",
    "ExecutionTimedOut",
    "ExecutionParked",
    "ExecutionRetired",
    "SweepError",
)
"""What every sweep writes, by the names of `piton.ports.Counter`."""

PARKED: Final = "ExecutionParked"
SWEEP_LAG: Final = "SweepLag"

_PERIOD: Final = Duration.minutes(1)
_RELAY_LAG: Final = Duration.minutes(2)
_WATCHDOG_LAG: Final = Duration.minutes(5)


class Monitoring(Construct):
    """Shows what the engine does and alarms on what people have to look at.

    `dead_queues` should always be empty. `live_queues` should drain.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        stage: Stage,
        *,
        functions: Mapping[Function, lambda_.Function],
        live_queues: Mapping[str, sqs.IQueue],
        dead_queues: Mapping[str, sqs.IQueue],
    ) -> None:
        super().__init__(scope, id_)
        self._stage = stage
        self._topic = (
            sns.Topic.from_topic_arn(self, "Topic", stage.alarm_topic)
            if stage.alarm_topic
            else None
        )
        watchdog, relay = functions[Function.WATCHDOG], functions[Function.OUTBOX_RELAY]
        self._alarm(
            "WatchdogFails",
            watchdog.metric_errors(period=_PERIOD),
            "Sweeps fail: lost work is not found again. See the watchdog's log.",
            periods=5,
            breaching=3,
        )
        self._alarm(
            "WatchdogSilent",
            watchdog.metric_invocations(period=Duration.minutes(5)),
            "No sweep has run for five minutes: is the schedule switched off?",
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            missing=cloudwatch.TreatMissingData.BREACHING,
        )
        self._alarm(
            "WatchdogBehind",
            self._figure(SWEEP_LAG, statistic="Maximum"),
            "Executions are due faster than sweeps take them: what is lost is found late.",
            threshold=_WATCHDOG_LAG.to_milliseconds(),
            periods=5,
            breaching=5,
        )
        self._alarm(
            "ExecutionParked",
            self._figure(PARKED),
            "An execution gets nowhere by itself. Find the cause, then resume it.",
        )
        self._alarm(
            "RelayBehind",
            relay.metric("IteratorAge", period=_PERIOD, statistic="Maximum"),
            "Events and dispatches are late. See the relay's log.",
            threshold=_RELAY_LAG.to_milliseconds(),
            periods=5,
            breaching=5,
        )
        for name, queue in dead_queues.items():
            self._alarm(
                f"{name}NotEmpty",
                _depth(queue),
                "Messages wait that nothing could handle; the runbook tells what to do with them.",
            )
        self._dashboard(functions, live_queues, dead_queues)

    def _alarm(
        self,
        id_: str,
        metric: cloudwatch.IMetric,
        description: str,
        *,
        threshold: float = 1,
        periods: int = 1,
        breaching: int = 1,
        comparison: cloudwatch.ComparisonOperator = (
            cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
        ),
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            id_,
            alarm_name=self._stage.named(id_),
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            datapoints_to_alarm=breaching,
            comparison_operator=comparison,
            treat_missing_data=missing,
        )
        if self._topic:
            alarm.add_alarm_action(actions.SnsAction(self._topic))

    def _figure(self, name: str, *, statistic: str = "Sum") -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=METRICS_NAMESPACE,
            metric_name=name,
            dimensions_map={
                "service": Function.WATCHDOG.value,
                "stage": self._stage.name.value,
            },
            statistic=statistic,
            period=_PERIOD,
        )

    def _dashboard(
        self,
        functions: Mapping[Function, lambda_.Function],
        live_queues: Mapping[str, sqs.IQueue],
        dead_queues: Mapping[str, sqs.IQueue],
    ) -> None:
        all_functions = list(functions.values())
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"piton-{self._stage.name}",
            widgets=[
                [
                    _graph(
                        "Watchdog: work found",
                        [self._figure(name) for name in WATCHDOG_FIGURES],
                    ),
                    _graph("Waiting messages", [_depth(queue) for queue in live_queues.values()]),
                ],
                [
                    _graph("Errors", [each.metric_errors() for each in all_functions]),
                    _graph("Duration (p95)", [_p95(each) for each in all_functions]),
                ],
                [
                    _graph("Dead letters", [_depth(queue) for queue in dead_queues.values()]),
                    _graph("Invocations", [each.metric_invocations() for each in all_functions]),
                ],
            ],
        )


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=12)


def _depth(queue: sqs.IQueue) -> cloudwatch.Metric:
    return queue.metric_approximate_number_of_messages_visible(period=_PERIOD, statistic="Maximum")


def _p95(function: lambda_.Function) -> cloudwatch.Metric:
    return function.metric_duration(statistic="p95")
