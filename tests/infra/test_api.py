"""Every field of the schema is answered, by the right function and for known callers only."""

import pytest
from graphql import FieldDefinitionNode, ObjectTypeDefinitionNode, parse

from handlers import commands, queries
from infra.schema import RESOLVERS, ROOTS, SCHEMA, SchemaError, check_resolvers
from piton.access import Function
from tests.infra.synthesis import Assembly, statements

AUTH = {"aws_cognito_user_pools", "aws_iam"}
SMALL = "type Query { a: Int } type Mutation { b: Int } type T { plain: Int paged(n: Int): Int }"
WIRED = {
    ("Query", "a"): Function.QUERIES,
    ("Mutation", "b"): Function.COMMANDS,
    ("T", "paged"): Function.QUERIES,
}


def objects() -> list[ObjectTypeDefinitionNode]:
    document = parse(SCHEMA.read_text())
    return [each for each in document.definitions if isinstance(each, ObjectTypeDefinitionNode)]


def directives(node: ObjectTypeDefinitionNode | FieldDefinitionNode) -> set[str]:
    return {directive.name.value for directive in node.directives}


def test_case_68_the_template_has_exactly_the_declared_resolvers(stage: Assembly) -> None:
    found = {
        (each["TypeName"], each["FieldName"]): each["DataSourceName"]
        for each in stage.of_type("AWS::AppSync::Resolver")
    }
    assert found == {field: kind.value for field, kind in RESOLVERS.items()}


def test_each_source_calls_its_function_and_nothing_else(stage: Assembly) -> None:
    sources = {each["Name"]: each for each in stage.of_type("AWS::AppSync::DataSource")}
    assert set(sources) == {"commands", "queries"}
    for name, source in sources.items():
        function = stage.named("AWS::Lambda::Function", "Handler", f"handlers.{name}.handler")
        arn = f"<{function.id}.Arn>"
        assert source["Type"] == "AWS_LAMBDA"
        assert stage.text(source["LambdaConfig"]["LambdaFunctionArn"]) == arn
        (statement,) = statements(stage, source["ServiceRoleArn"]["Fn::GetAtt"][0])
        assert statement["Action"] == "lambda:InvokeFunction"
        assert stage.text(statement["Resource"]) == arn


def test_resolvers_wait_for_the_schema(stage: Assembly) -> None:
    (schema,) = stage.of_type("AWS::AppSync::GraphQLSchema")
    assert schema["Definition"] == SCHEMA.read_text()
    for resolver in stage.of_type("AWS::AppSync::Resolver"):
        assert schema.id in resolver.body["DependsOn"]
        assert not {"RequestMappingTemplate", "Code"} & resolver.body["Properties"].keys()


def test_case_68_every_resolver_has_a_handler_and_every_handler_a_resolver() -> None:
    handled = {
        **dict.fromkeys(commands.fields.resolvers, Function.COMMANDS),
        **dict.fromkeys(queries.fields.resolvers, Function.QUERIES),
    }
    assert handled == dict(RESOLVERS)


def test_both_kinds_of_caller_are_let_into_every_field() -> None:
    """AppSync lets only the default kind into what carries no directive."""
    for definition in objects():
        root = definition.name.value in ROOTS
        for node in definition.fields if root else (definition,):
            assert directives(node) == AUTH, f"{definition.name.value}: {node.name.value}"


def test_callers_sign_in_through_the_user_pool_or_iam(stage: Assembly) -> None:
    (api,) = stage.of_type("AWS::AppSync::GraphQLApi")
    (users,) = stage.of_type("AWS::Cognito::UserPool")
    (client,) = stage.of_type("AWS::Cognito::UserPoolClient")
    assert api["AuthenticationType"] == "AMAZON_COGNITO_USER_POOLS"
    assert api["UserPoolConfig"]["UserPoolId"] == {"Ref": users.id}
    assert api["UserPoolConfig"]["AppIdClientRegex"] == {"Ref": client.id}
    (other,) = api["AdditionalAuthenticationProviders"]
    assert other == {"AuthenticationType": "AWS_IAM"}


def test_queries_cannot_go_without_end(stage: Assembly) -> None:
    (api,) = stage.of_type("AWS::AppSync::GraphQLApi")
    assert 0 < api["QueryDepthLimit"] <= 10
    assert 0 < api["ResolverCountLimit"] <= 500


def test_failing_fields_are_logged_without_their_contents(prod: Assembly) -> None:
    (api,) = prod.of_type("AWS::AppSync::GraphQLApi")
    assert api["LogConfig"]["FieldLogLevel"] == "ERROR"
    assert api["LogConfig"]["ExcludeVerboseContent"] is True
    role = api["LogConfig"]["CloudWatchLogsRoleArn"]["Fn::GetAtt"][0]
    (statement,) = statements(prod, role)
    assert statement["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]


def test_nobody_chooses_a_tenant_for_themselves(stage: Assembly) -> None:
    (users,) = stage.of_type("AWS::Cognito::UserPool")
    (client,) = stage.of_type("AWS::Cognito::UserPoolClient")
    assert users["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    (tenant,) = users["Schema"]
    assert tenant["Name"] == "tenant"
    assert tenant["Mutable"] is False
    assert "custom:tenant" in client["ReadAttributes"]
    assert client["WriteAttributes"]
    assert not [name for name in client["WriteAttributes"] if name.startswith("custom:")]


def test_users_sign_in_with_a_strong_password(stage: Assembly) -> None:
    (users,) = stage.of_type("AWS::Cognito::UserPool")
    (client,) = stage.of_type("AWS::Cognito::UserPoolClient")
    policy = users["Policies"]["PasswordPolicy"]
    assert policy["MinimumLength"] >= 12
    assert all(
        policy[f"Require{kind}"] for kind in ("Lowercase", "Uppercase", "Numbers", "Symbols")
    )
    assert set(client["ExplicitAuthFlows"]) == {
        "ALLOW_REFRESH_TOKEN_AUTH",
        "ALLOW_USER_PASSWORD_AUTH",
        "ALLOW_USER_SRP_AUTH",
    }
    assert client["PreventUserExistenceErrors"] == "ENABLED"
    assert client["GenerateSecret"] is False


def test_groups_exist(stage: Assembly) -> None:
    groups = {each["GroupName"] for each in stage.of_type("AWS::Cognito::UserPoolGroup")}
    assert groups == {"viewers", "operators"}


def test_a_complete_wiring_is_accepted() -> None:
    check_resolvers(SMALL, WIRED)


@pytest.mark.parametrize("field", WIRED, ids=".".join)
def test_a_field_that_nobody_answers_is_named(field: tuple[str, str]) -> None:
    """Root fields need a resolver, and so do fields with arguments; plain ones do not."""
    rest = {name: kind for name, kind in WIRED.items() if name != field}
    with pytest.raises(SchemaError, match=f"No function answers {'.'.join(field)}"):
        check_resolvers(SMALL, rest)


def test_a_resolver_without_a_field_is_named() -> None:
    with pytest.raises(SchemaError, match=r"The schema lacks Query\.gone"):
        check_resolvers(SMALL, {**WIRED, ("Query", "gone"): Function.QUERIES})


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(SchemaError, match="cannot be read"):
        check_resolvers("type Query {", WIRED)
