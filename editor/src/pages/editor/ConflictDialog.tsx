/** Somebody else has changed the same thing: what both changed is shown, and nothing is lost. */

import { useQuery } from "@tanstack/react-query";
import { useMemo, useState, type ReactElement, type ReactNode } from "react";

import type { OpenedDraft } from "../../api/drafts";
import { merge3, readDocument, type Choice, type Merge, type WorkflowDocument } from "../../model";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Problem, Skeleton } from "../../ui/Notice";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toasts";
import type { EditorSession } from "./session";

const CHOICES: Record<Choice, string> = { mine: "mine", theirs: "theirs", both: "both, mine and a copy of theirs" };

/** Somebody else, or another tab, has saved the draft. */
export function ConflictDialog({ session, theirs, onClose }: { session: EditorSession; theirs: OpenedDraft; onClose: () => void }): ReactElement {
  const merge = useMemo(() => merge3(readDocument(session.saver!.base), session.store.document, readDocument(theirs.text)), [session, theirs]);
  const resolve = (name: string, document: WorkflowDocument) => {
    onClose();
    session.model.try(() => session.resolve(theirs, name, document));
  };
  return (
    <MergeDialog
      merge={merge}
      title="The draft was changed elsewhere"
      about={
        <>
          Saved <Ago time={theirs.updatedAt} /> by the key {theirs.updatedBy}.
        </>
      }
      extra={<Button onClick={() => resolve("Take theirs", readDocument(theirs.text))}>Take theirs, drop mine</Button>}
      onMerge={(document) => resolve("Merge", document)}
      onClose={onClose}
    />
  );
}

/** A version that this draft was not made from has been published. */
export function NewerVersionDialog({ session, onClose }: { session: EditorSession; onClose: () => void }): ReactElement {
  const newest = useQuery({ queryKey: ["newest", session.saver!.draft!.draftID], queryFn: () => session.mergeWithNewest(), gcTime: 0, staleTime: Infinity });
  const [problem, setProblem] = useState<unknown>(null);
  if (newest.data === undefined || problem !== null) {
    return (
      <Dialog open onClose={onClose} title="A newer version was published" footer={<Button onClick={onClose}>Close</Button>}>
        {problem !== null || newest.error ? <Problem error={problem ?? newest.error} /> : <Skeleton lines={3} />}
      </Dialog>
    );
  }
  const { merge, version } = newest.data;
  return (
    <MergeDialog
      merge={merge}
      title="A newer version was published"
      about={`Version ${version} is newer than what this draft was made from.`}
      onMerge={(document) => {
        session.takeMergeWith(version, document).then(() => {
          onClose();
          toast(`Version ${version} is merged into the draft. Publish it when it is right.`);
        }, setProblem);
      }}
      onClose={onClose}
    />
  );
}

interface MergeDialogProps {
  merge: Merge;
  title: string;
  about: ReactNode;
  extra?: ReactNode;
  onMerge: (document: WorkflowDocument) => void;
  onClose: () => void;
}

function MergeDialog({ merge, title, about, extra, onMerge, onClose }: MergeDialogProps): ReactElement {
  const [choices, setChoices] = useState<ReadonlyMap<string, Choice>>(new Map());
  const isDisjoint = merge.conflicts.length === 0;
  return (
    <Dialog
      open
      onClose={onClose}
      wide={!isDisjoint}
      title={title}
      about={
        <>
          {about} {isDisjoint ? "Both sides changed different things: they can be merged." : "Both sides changed the following. The merge can be undone afterwards."}
        </>
      }
      footer={
        <>
          {extra}
          <Button look="primary" onClick={() => onMerge(merge.resolve(choices))}>
            {isDisjoint ? "Merge" : "Merge with these choices"}
          </Button>
        </>
      }
    >
      {merge.conflicts.map((conflict) => (
        <fieldset key={conflict.id} className="conflict">
          <legend>
            {conflict.about === "field" ? "the workflow’s" : conflict.kind} <code>{conflict.about === "field" ? conflict.name : conflict.identity}</code>{" "}
            {conflict.about === "place" && <span className="faint">(place)</span>}
            {conflict.about === "connection" && <span className="faint">(removed on one side, connected on the other: {conflict.name})</span>}
          </legend>
          <table className="table small">
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col">Mine</th>
                <th scope="col">Theirs</th>
              </tr>
            </thead>
            <tbody>
              {conflict.fields.map((field) => (
                <tr key={field.pointer}>
                  <td>
                    <code>{field.pointer || "all of it"}</code>
                  </td>
                  <td>
                    <code>{field.before ?? "–"}</code>
                  </td>
                  <td>
                    <code>{field.after ?? "–"}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          <div className="row row-wrap">
            {conflict.choices.map((choice) => (
              <label key={choice} className="check">
                <input
                  type="radio"
                  name={conflict.id}
                  checked={(choices.get(conflict.id) ?? "mine") === choice}
                  onChange={() => setChoices((before) => new Map(before).set(conflict.id, choice))}
                />
                {CHOICES[choice]}
              </label>
            ))}
          </div>
        </fieldset>
      ))}
    </Dialog>
  );
}
