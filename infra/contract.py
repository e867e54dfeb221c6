"""What the application and those who run it agree on, without loading CDK."""

from __future__ import annotations

from enum import StrEnum


class StageName(StrEnum):
    """Kinds of deployment, by the context value `stage`."""

    DEV = "dev"
    PROD = "prod"
    LOCAL = "local"


class ContextKey(StrEnum):
    """Every context value that the application reads."""

    STAGE = "stage"
    CUSTOMER_KEY = "customerKey"
    RESERVE_CONCURRENCY = "reserveConcurrency"
    SETTINGS = "settings"
    IAM_TENANTS = "iamTenants"
    LOG_LEVEL = "logLevel"
    ALARM_TOPIC = "alarmTopic"
    BODY_LOG = "bodyLog"


class Output(StrEnum):
    """Outputs of the stacks, the same on every stage. `WORKER_QUEUE_URLS` is JSON by pool."""

    REGION = "Region"
    EXECUTIONS_TABLE = "ExecutionsTable"
    WORKFLOWS_TABLE = "WorkflowsTable"
    PAYLOADS_BUCKET = "PayloadsBucket"
    BUS_NAME = "BusName"
    ADVANCE_QUEUE_URL = "AdvanceQueueUrl"
    ADVANCE_DLQ_URL = "AdvanceDlqUrl"
    WORKER_QUEUE_URLS = "WorkerQueueUrls"
    QUARANTINE_URL = "QuarantineUrl"
    API_URL = "ApiUrl"
    API_ID = "ApiId"
    USER_POOL_ID = "UserPoolId"
    USER_POOL_CLIENT_ID = "UserPoolClientId"
