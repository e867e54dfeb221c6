"""Who may call the API: users of a Cognito pool, each of one tenant."""

from __future__ import annotations

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from infra.findings import acknowledge
from infra.stage import GROUPS, Stage

TENANT_ATTRIBUTE: Final = "tenant"


class Identity(Construct):
    """User pool, groups and the one app client.

    Only administrators create users. A user's tenant is set then and by no one ever again: the
    attribute is immutable, and no client may write it.
    """

    def __init__(self, scope: Construct, id_: str, stage: Stage) -> None:
        super().__init__(scope, id_)
        self.pool = cognito.UserPool(
            self,
            "Users",
            user_pool_name=stage.named("users"),
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(username=True),
            account_recovery=cognito.AccountRecovery.NONE,
            custom_attributes={
                TENANT_ATTRIBUTE: cognito.StringAttribute(mutable=False, min_len=2, max_len=33)
            },
            password_policy=cognito.PasswordPolicy(
                min_length=14,
                require_lowercase=True,
                require_uppercase=True,
                require_digits=True,
                require_symbols=True,
                temp_password_validity=Duration.days(3),
            ),
            mfa=cognito.Mfa.OPTIONAL,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            deletion_protection=stage.protect,
            removal_policy=stage.removal,
        )
        for group, description in GROUPS.items():
            cognito.CfnUserPoolGroup(
                self,
                group.capitalize(),
                user_pool_id=self.pool.user_pool_id,
                group_name=group,
                description=description,
            )
        known = cognito.ClientAttributes()
        self.client = self.pool.add_client(
            "Cli",
            user_pool_client_name=stage.named("cli"),
            auth_flows=cognito.AuthFlow(user_password=True, user_srp=True),
            disable_o_auth=True,
            generate_secret=False,
            prevent_user_existence_errors=True,
            enable_token_revocation=True,
            id_token_validity=Duration.hours(1),
            access_token_validity=Duration.hours(1),
            refresh_token_validity=Duration.days(1),
            read_attributes=known.with_custom_attributes(TENANT_ATTRIBUTE),
            # Without a list, a client may write everything, the tenant included.
            write_attributes=known.with_standard_attributes(nickname=True),
        )
        acknowledge(
            self.pool,
            "COG2",
            "A second factor is offered and not forced: the command line signs in for scripts, "
            "and the pool's administrators can demand it of people.",
        )
        acknowledge(
            self.pool,
            "COG3",
            "Threat protection belongs to a paid plan; nobody can sign up, and a wrong password "
            "locks a user out for a growing time on every plan.",
        )
        acknowledge(self.pool, "COG8", "The paid plan adds nothing that this pool uses.")
