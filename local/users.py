"""Users of a deployment: who they are is in its Cognito user pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from local.client import ApiRejected, ApiUnreachable
from local.target import Target
from piton.domain.names import Tenant
from piton.services.caller import Group

T = TypeVar("T")

TENANT_ATTRIBUTE: Final = "custom:tenant"

_CODES: Final = {
    "NotAuthorizedException": "UNAUTHENTICATED",
    "UserNotFoundException": "USER_NOT_FOUND",
    "UsernameExistsException": "USER_EXISTS",
    "ResourceNotFoundException": "USER_POOL_NOT_FOUND",
    "AccessDeniedException": "FORBIDDEN",
    "UnrecognizedClientException": "FORBIDDEN",
}


class Users:
    """Administers users and signs them in. Methods raise `ApiRejected` or `ApiUnreachable`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._cognito = target.cognito()

    def create(self, name: str, tenant: Tenant, groups: Sequence[Group], password: str) -> None:
        """Create a user who can sign in at once. The tenant can never be changed."""
        pool = self._target.user_pool_id
        self._call(
            lambda: self._cognito.admin_create_user(
                UserPoolId=pool,
                Username=name,
                UserAttributes=[{"Name": TENANT_ATTRIBUTE, "Value": tenant}],
                # The one that the embedded AWS makes up does not satisfy the pool's own policy.
                TemporaryPassword=password,
                MessageAction="SUPPRESS",
            )
        )
        try:
            self._call(
                lambda: self._cognito.admin_set_user_password(
                    UserPoolId=pool, Username=name, Password=password, Permanent=True
                )
            )
            for group in groups:
                self.join(name, group)
        except ApiRejected:
            # A user without password or groups would only be in the way of the next try.
            self._call(lambda: self._cognito.admin_delete_user(UserPoolId=pool, Username=name))
            raise

    def join(self, name: str, group: Group) -> None:
        """Put a user into a group."""
        self._call(
            lambda: self._cognito.admin_add_user_to_group(
                UserPoolId=self._target.user_pool_id, Username=name, GroupName=group.value
            )
        )

    def leave(self, name: str, group: Group) -> None:
        """Take a user out of a group."""
        self._call(
            lambda: self._cognito.admin_remove_user_from_group(
                UserPoolId=self._target.user_pool_id, Username=name, GroupName=group.value
            )
        )

    def tenant(self, name: str) -> str | None:
        """Return a user's tenant."""
        user = self._call(
            lambda: self._cognito.admin_get_user(
                UserPoolId=self._target.user_pool_id, Username=name
            )
        )
        attributes = {each["Name"]: each.get("Value") for each in user.get("UserAttributes", ())}
        return attributes.get(TENANT_ATTRIBUTE)

    def sign_in(self, name: str, password: str) -> str:
        """Return an ID token."""
        answer = self._call(
            lambda: self._cognito.initiate_auth(
                ClientId=self._target.client_id,
                AuthFlow="USER_PASSWORD_AUTH",
                AuthParameters={"USERNAME": name, "PASSWORD": password},
            )
        )
        # Cognito leaves the result out while it asks for another step.
        token = answer.get("AuthenticationResult", {}).get("IdToken")
        if token is None:
            challenge = answer.get("ChallengeName", "another step")
            raise ApiRejected("UNAUTHENTICATED", f"Signing in asks for {challenge} first")
        return token

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except ClientError as error:
            code = error.response["Error"]["Code"]
            message = error.response["Error"]["Message"]
            raise ApiRejected(_CODES.get(code, "INVALID_INPUT"), message) from error
        except BotoCoreError as error:
            raise ApiUnreachable(f"the user pool does not answer: {error}") from error
