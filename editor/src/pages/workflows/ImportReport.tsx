/** Workflows of n8n: a file becomes a draft, and the report says what is the same and what is not. */

import type { ReactElement } from "react";
import { useNavigate } from "react-router";

import { call, type Schemas } from "../../api/client";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { refresh } from "../data";

export type ImportedWorkflow = Schemas["ImportedWorkflow"];

const SHOWN = { exact: "exact", equal: "equal but for", placeholder: "placeholder" } as const;

/** Whether a text is an export of n8n. */
export function isN8n(text: string): boolean {
  try {
    const read: unknown = JSON.parse(text);
    const first = (Array.isArray(read) ? read[0] : read) as { nodes?: { type?: unknown }[]; connections?: unknown } | null;
    return first?.connections !== undefined && Array.isArray(first.nodes) && first.nodes.every((node) => /n8n-nodes-/.test(String(node?.type)) || !("config" in node));
  } catch {
    return false;
  }
}

/** Import an export as drafts; the reports on its workflows. */
export async function importN8n(text: string): Promise<ImportedWorkflow[]> {
  const { items } = await call("import_workflows", { bodyText: text });
  refresh("list_drafts");
  return items;
}

/** What was imported, and where its draft is. */
export function ImportReportDialog({ imported, onClose }: { imported: readonly ImportedWorkflow[]; onClose: () => void }): ReactElement {
  const navigate = useNavigate();
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title={imported.length === 1 ? `${imported[0]!.report.title} is imported as a draft` : `${imported.length} workflows are imported as drafts`}
      about="Nothing is called exact that is not. Placeholders fail when they are reached, until you replace them."
      footer={
        <>
          <Button onClick={onClose}>Close</Button>
          {imported.length === 1 && imported[0]!.draftID !== null && (
            <Button look="primary" onClick={() => (onClose(), void navigate(`/drafts/${encodeURIComponent(imported[0]!.draftID!)}`))}>
              Open the draft
            </Button>
          )}
        </>
      }
    >
      <div className="stack" style={{ gap: 16, maxHeight: "60vh", overflow: "auto" }}>
        {imported.map(({ draftID, report }) => (
          <section key={draftID ?? report.workflow} aria-label={report.title}>
            <p>
              {report.counts.exact} exact, {report.counts.equal} equal but for something, {report.counts.placeholder} placeholders
            </p>
            <table className="table">
              <tbody>
                {report.nodes.map((node) => (
                  <tr key={node.name}>
                    <th scope="row">{node.name}</th>
                    <td>{SHOWN[node.status]}</td>
                    <td className="faint small">{[node.why, ...node.remarks].filter(Boolean).join("; ")}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            {report.credentials.length > 0 && (
              <>
                <h3>Credentials to enter</h3>
                <ul>
                  {report.credentials.map((each) => (
                    <li key={`${each.type} ${each.name}`}>
                      {each.name} ({each.type}): {each.secrets.join(", ")}
                    </li>
                  ))}
                </ul>
              </>
            )}
            {report.variables.length > 0 && (
              <>
                <h3>Variables to set</h3>
                <ul>
                  {report.variables.map((each) => (
                    <li key={each.name}>
                      {each.name}: {each.nodes.join(", ")}
                    </li>
                  ))}
                </ul>
              </>
            )}
            <h3>What behaves differently here</h3>
            <ul className="faint small">
              {report.differences.map((each) => (
                <li key={each}>{each}</li>
              ))}
            </ul>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
