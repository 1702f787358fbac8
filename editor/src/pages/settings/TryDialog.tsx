/** Trying a data query: a test run of one node, so that it runs as workflows run it, and its rows are seen. */

import { Play } from "lucide-react";
import { useMemo, useState, type ReactElement } from "react";
import { Link } from "react-router";

import { callText, type Schemas } from "../../api/client";
import { entriesOf, memberText, removeMember, shownScalar } from "../../json";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import type { JsonSchema } from "../../ui/forms/schema";
import { jsonProblem } from "../../ui/forms/SchemaForm";
import { Notice, Problem } from "../../ui/Notice";
import { ValueViewer } from "../../ui/ValueViewer";
import { InputFields } from "../start/InputFields";
import { sketchInput } from "../start/inputSketch";

type Query = Schemas["QuerySummary"];

/** A query that takes longer is looked at on its run's page. */
const WAIT = "30s";

const TYPES: Readonly<Record<string, JsonSchema>> = {
  string: { type: "string" },
  datetime: { type: "string", "x-ui": { placeholder: "2030-01-31T12:00:00Z" } },
  int: { type: "integer" },
  float: { type: "number" },
  bool: { type: "boolean" },
};

interface Result {
  readonly instanceID: string;
  readonly status: string;
  readonly error: { code?: string; message?: string } | null;
  readonly rows: string;
  readonly rowCount: string;
}

export function TryDialog({ query, onClose }: { query: Query; onClose: () => void }): ReactElement {
  const schema = useMemo(() => argumentsOf(query), [query]);
  const hasArguments = Object.keys(schema.properties ?? {}).length > 0;
  const [text, setText] = useState(() => beginWith(schema));
  const [problem, setProblem] = useState<unknown>(null);
  const [result, setResult] = useState<Result | null>(null);
  const [isBusy, setBusy] = useState(false);
  const run = () => {
    const wrong = jsonProblem(text);
    if (wrong !== null) {
      setProblem(new Error(wrong));
      return;
    }
    setProblem(null);
    setResult(null);
    setBusy(true);
    tryQuery(query, text)
      .then(setResult, setProblem)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title={`Try ${query.name}`}
      onSubmit={run}
      footer={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" disabled={isBusy}>
            <Play size={14} /> {isBusy ? "Running" : "Run the query"}
          </Button>
        </>
      }
    >
      {query.writes && <Notice kind="warning">This query changes data, and does so here, too.</Notice>}
      <pre className="input mono sql-shown">{query.sql}</pre>
      {hasArguments && <InputFields schema={schema} text={text} onChange={setText} onSubmit={run} />}
      {result !== null && <Shown result={result} />}
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}

function Shown({ result: { instanceID, status, error, rows, rowCount } }: { result: Result }): ReactElement {
  if (error !== null) {
    return (
      <Notice kind="error">
        {error.message} <code className="faint">{error.code}</code>
      </Notice>
    );
  }
  if (status !== "COMPLETED") {
    return (
      <Notice kind="info">
        The query has not ended yet. <Link to={`/runs/${instanceID}`}>Watch its run</Link>
      </Notice>
    );
  }
  return (
    <div className="stack" role="status">
      <h3>
        {rowCount} {rowCount === "1" ? "row" : "rows"}
      </h3>
      <ValueViewer text={rows} label="Rows" first="table" />
    </div>
  );
}

async function tryQuery(query: Query, args: string): Promise<Result> {
  const names = entriesOf(args).map(({ key }) => String(key));
  const bound = Object.fromEntries(names.map((name) => [name, `{{ctx.input[${JSON.stringify(name)}]}}`]));
  const graph = {
    nodes: [
      { id: "start", type: "start" },
      { id: "query", type: "dataQuery", config: { dataQueryID: query.dataQueryID, args: bound }, outputVariable: "result", errorHandling: "fail_workflow" },
      { id: "end", type: "end", config: { outputParameters: { rows: "{{ctx.result.rows}}", rowCount: "{{ctx.result.rowCount}}" } } },
    ],
    edges: [
      { upstreamNodeID: "start", downstreamNodeID: "query" },
      { upstreamNodeID: "query", downstreamNodeID: "end" },
    ],
  };
  const bodyText = JSON.stringify(graph).replace(/\}$/, `,"input":${args}}`);
  const { text } = await callText("start_test_run", { query: { wait: WAIT } as never, bodyText });
  const output = memberText(text, "output") ?? "null";
  const isObject = output.startsWith("{");
  const scalarOf = (name: string) => shownScalar(memberText(text, name) ?? '""');
  return {
    instanceID: scalarOf("instanceID"),
    status: scalarOf("status"),
    error: JSON.parse(memberText(text, "error") ?? "null") as Result["error"],
    rows: (isObject ? memberText(output, "rows") : undefined) ?? "[]",
    rowCount: (isObject ? memberText(output, "rowCount") : undefined) ?? "0",
  };
}

/** Values to begin with; a parameter of which nothing is known begins as empty text. */
function beginWith(schema: JsonSchema): string {
  const text = sketchInput(schema);
  return entriesOf(text).reduce((kept, { key, text: value }) => (value === "null" ? removeMember(kept, String(key)) : kept), text);
}

/** A form for the parameters: those that are declared, and those that only the SQL names. */
function argumentsOf({ sql, params }: Query): JsonSchema {
  const properties: Record<string, JsonSchema> = {};
  const required: string[] = [];
  for (const [name, declared] of Object.entries(params)) {
    const { type, ...more } = typeof declared === "string" ? { type: declared } : (declared as { type?: string; default?: unknown });
    properties[name] = { title: name, ...TYPES[type ?? "any"], ...more };
    if (!("default" in more)) required.push(name);
  }
  for (const [, name] of sql.matchAll(/(?<![:\w]):([A-Za-z_]\w*)/g)) properties[name!] ??= { title: name! };
  return { type: "object", properties, required };
}
