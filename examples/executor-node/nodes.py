"""The node type for workers and the editor: they check configs with it. `handlers.mjs` has what is executed."""

from pydantic import BaseModel

from anabranch import NonRetryable, node_type


class CountWordsConfig(BaseModel):
    """The text to be counted."""

    text: str


@node_type("countWords", config=CountWordsConfig, pool="node")
class CountWords:
    """Counts the words of a text, in Node.js."""

    async def execute(self, config, context, helpers):
        """Say that this worker serves a pool that it should leave to executors."""
        raise NonRetryable("countWords is executed by handlers.mjs: start this worker without the pool `node`")
