"""The web ACL in front of the API: how often one address may call."""

from __future__ import annotations

from typing import Final

from aws_cdk import aws_appsync as appsync
from aws_cdk import aws_wafv2 as waf
from constructs import Construct

from infra.stage import Stage

REQUESTS: Final = 2000
"""Requests of one address that are let through in `WINDOW_S`."""

WINDOW_S: Final = 300
_Rule = waf.CfnWebACL.RuleProperty
_Sampled = waf.CfnWebACL.VisibilityConfigProperty


class Firewall(Construct):
    """Lets everybody through until an address calls too often; then it gets 429 for a while.

    About $6 a month and $0.60 for a million requests.
    """

    def __init__(
        self, scope: Construct, id_: str, stage: Stage, *, api: appsync.GraphqlApi
    ) -> None:
        super().__init__(scope, id_)
        acl = waf.CfnWebACL(
            self,
            "Acl",
            name=stage.named("api"),
            scope="REGIONAL",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            rules=[
                _Rule(
                    name="rate-of-one-address",
                    priority=0,
                    statement=waf.CfnWebACL.StatementProperty(
                        rate_based_statement=waf.CfnWebACL.RateBasedStatementProperty(
                            aggregate_key_type="IP",
                            limit=REQUESTS,
                            evaluation_window_sec=WINDOW_S,
                        )
                    ),
                    action=waf.CfnWebACL.RuleActionProperty(
                        block={"customResponse": {"responseCode": 429}}
                    ),
                    visibility_config=_sampled("RateOfOneAddress"),
                )
            ],
            visibility_config=_sampled("Api"),
        )
        waf.CfnWebACLAssociation(
            self, "Association", resource_arn=api.arn, web_acl_arn=acl.attr_arn
        )


def _sampled(metric: str) -> _Sampled:
    return _Sampled(
        cloud_watch_metrics_enabled=True, sampled_requests_enabled=True, metric_name=metric
    )
