"""The GraphQL API and the functions behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from aws_cdk import aws_appsync as appsync
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.bundle import Bundle
from infra.contract import StageName
from infra.findings import acknowledge
from infra.firewall import Firewall
from infra.functions import EngineFunction, log_group_name
from infra.grants import Stores
from infra.identity import Identity
from infra.pool import Pool
from infra.rulebook import exempt
from infra.rules import Rule
from infra.schema import SCHEMA, Field, check_resolvers
from infra.stage import Stage
from piton.access import Function

# The deepest useful query reads where the log of a node's attempt is.
_QUERY_DEPTH: Final = 8
# A full page of executions with their inputs and outputs.
_RESOLVERS_PER_QUERY: Final = 250


class Api(Construct):
    """AppSync with one resolver per field, each straight into a function.

    Users sign in through Cognito, other applications through IAM. Raises `SchemaError` when a
    field would go unanswered.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        stage: Stage,
        *,
        identity: Identity,
        pools: Sequence[Pool],
        bundle: Bundle,
        stores: Stores,
        resolvers: Mapping[Field, Function],
    ) -> None:
        super().__init__(scope, id_)
        check_resolvers(SCHEMA.read_text(), resolvers)
        self.functions = {
            Function.COMMANDS: EngineFunction(
                self,
                "Commands",
                stage,
                kind=Function.COMMANDS,
                bundle=bundle,
                stores=stores,
                environment={
                    "PITON_POOLS": _pool_limits(pools),
                    "PITON_IAM_TENANTS": stage.iam_tenants,
                },
            ),
            Function.QUERIES: EngineFunction(
                self,
                "Queries",
                stage,
                kind=Function.QUERIES,
                bundle=bundle,
                stores=stores,
                environment={
                    "PITON_WORKER_LOG_GROUPS": _worker_log_groups(stage, pools),
                    "PITON_IAM_TENANTS": stage.iam_tenants,
                },
            ),
        }
        self.api = appsync.GraphqlApi(
            self,
            "GraphQl",
            name=stage.named("api"),
            definition=appsync.Definition.from_file(str(SCHEMA)),
            authorization_config=appsync.AuthorizationConfig(
                default_authorization=appsync.AuthorizationMode(
                    authorization_type=appsync.AuthorizationType.USER_POOL,
                    user_pool_config=appsync.UserPoolConfig(
                        user_pool=identity.pool,
                        app_id_client_regex=identity.client.user_pool_client_id,
                    ),
                ),
                additional_authorization_modes=[
                    appsync.AuthorizationMode(authorization_type=appsync.AuthorizationType.IAM)
                ],
            ),
            query_depth_limit=_QUERY_DEPTH,
            resolver_count_limit=_RESOLVERS_PER_QUERY,
        )
        if stage.api_logs:
            self._log(stage)
        if stage.name is StageName.PROD:
            Firewall(self, "Firewall", stage, api=self.api)
        else:
            exempt(self.api, Rule.API_RATE, "Only prod pays for a web ACL, about $6 a month.")
        acknowledge(
            self.api,
            "ASC3",
            "Failing fields are logged where the stage allows it, but no verbose content: that "
            "holds what executions are about.",
        )
        sources = {
            kind: self._source(kind, function.function) for kind, function in self.functions.items()
        }
        for (type_name, field_name), kind in resolvers.items():
            resolver = appsync.CfnResolver(
                self,
                f"{type_name}{field_name[0].upper()}{field_name[1:]}",
                api_id=self.api.api_id,
                type_name=type_name,
                field_name=field_name,
                data_source_name=sources[kind].name,
            )
            resolver.add_resource_dependency(sources[kind])
            self.api.add_schema_dependency(resolver)

    def _source(self, kind: Function, function: lambda_.Function) -> appsync.CfnDataSource:
        """Let AppSync call this function and none of its versions, unlike CDK's own grant."""
        role = iam.Role(
            self,
            f"{kind.value.capitalize()}Caller",
            assumed_by=iam.ServicePrincipal("appsync.amazonaws.com"),
            description=f"Lets the API call {kind.value}",
            inline_policies={
                "Invoke": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=["lambda:InvokeFunction"], resources=[function.function_arn]
                        )
                    ]
                )
            },
        )
        return appsync.CfnDataSource(
            self,
            f"{kind.value.capitalize()}Source",
            api_id=self.api.api_id,
            name=kind.value,
            type="AWS_LAMBDA",
            service_role_arn=role.role_arn,
            lambda_config=appsync.CfnDataSource.LambdaConfigProperty(
                lambda_function_arn=function.function_arn
            ),
        )

    def _log(self, stage: Stage) -> None:
        """Log failing fields to a group of this stack.

        AppSync derives the group's name from the API's id, so the grant cannot be part of the
        role. CDK's own setting would bring a function that outlives its log group.
        """
        role = iam.Role(
            self,
            "LogWriter",
            assumed_by=iam.ServicePrincipal("appsync.amazonaws.com"),
            description="Lets the API write its log",
        )
        cast(
            appsync.CfnGraphQLApi, self.api.node.default_child
        ).log_config = appsync.CfnGraphQLApi.LogConfigProperty(
            cloud_watch_logs_role_arn=role.role_arn,
            exclude_verbose_content=True,
            field_log_level="ERROR",
        )
        group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/appsync/apis/{self.api.api_id}",
            retention=stage.log_retention,
            removal_policy=stage.removal,
        )
        iam.Policy(
            self,
            "WriteLogs",
            roles=[role],
            statements=[
                iam.PolicyStatement(
                    actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                    resources=[group.log_group_arn],
                )
            ],
        )


def _pool_limits(pools: Sequence[Pool]) -> str:
    return json.dumps(
        {
            pool.name: {
                "max_timeout_s": pool.max_task_timeout_s,
                "allowed_lambdas": pool.allowed_lambdas,
            }
            for pool in pools
        },
        sort_keys=True,
    )


def _worker_log_groups(stage: Stage, pools: Sequence[Pool]) -> str:
    return json.dumps(
        {pool.name: log_group_name(stage, pool.worker_name) for pool in pools}, sort_keys=True
    )
