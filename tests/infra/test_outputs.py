"""What was deployed is found again through the file that CDK writes."""

import json
from pathlib import Path

import pytest

from infra.contract import Output
from local.deploy import DeployError, Outputs


def written(place: Path, *left_out: Output) -> Path:
    values = {output.value: output.name for output in Output if output not in left_out}
    values[Output.WORKER_QUEUE_URLS.value] = '{"default": "url"}'
    half = len(values) // 2
    items = list(values.items())
    place.write_text(json.dumps({"a": dict(items[:half]), "b": dict(items[half:])}))
    return place


def test_outputs_of_all_stacks_come_together(tmp_path: Path) -> None:
    outputs = Outputs.from_file(written(tmp_path / "outputs.json"))
    assert outputs.executions_table == Output.EXECUTIONS_TABLE.name
    assert outputs.api_id == Output.API_ID.name
    assert outputs.worker_queue_urls == {"default": "url"}


def test_a_missing_output_is_named(tmp_path: Path) -> None:
    place = written(tmp_path / "outputs.json", Output.API_ID)
    with pytest.raises(DeployError, match="ApiId"):
        Outputs.from_file(place)


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}'])
def test_another_file_is_refused(content: str, tmp_path: Path) -> None:
    place = tmp_path / "outputs.json"
    place.write_text(content)
    with pytest.raises(DeployError, match="does not describe all stacks"):
        Outputs.from_file(place)


def test_nothing_deployed_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match="deploy all stacks first"):
        Outputs.from_file(tmp_path / "outputs.json")
