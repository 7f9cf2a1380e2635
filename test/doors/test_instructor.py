"""instructor over the server, and the same class by json(): the recipe of docs/PYTHON.md."""
from typing import Literal

import gallop
import pytest

instructor = pytest.importorskip("instructor")
openai = pytest.importorskip("openai")

from pydantic import BaseModel, ConfigDict, Field


class Pet(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["cat", "dog"]
    legs: int = Field(ge=0, le=9)


def test_the_client_returns_an_instance():
    with gallop.serve(max_num_seqs=2, threads=1) as server:
        client = instructor.from_openai(
            openai.OpenAI(base_url=server.url + "/v1", api_key="-", max_retries=0),
            mode=instructor.Mode.JSON_SCHEMA)
        pet = client.chat.completions.create(
            model="demo", response_model=Pet, max_tokens=100, max_retries=0,
            strict=False,  # JSON Schema counts 7.0 among the integers, strict pydantic does not.
            messages=[{"role": "user", "content": "A pet:"}])
    assert isinstance(pet, Pet)


def test_json_returns_an_instance(llm):
    assert isinstance(llm.json("A pet:", Pet, max_new_tokens=100), Pet)
