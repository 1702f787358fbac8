/** The bar of the editor: title, how the draft stands, versions, test, publish. */

import { ChevronDown, ChevronLeft, CloudOff, Download, FileUp, History, List, Play, Redo2, Rocket, Sparkles, Trash2, Undo2, Workflow } from "lucide-react";
import { useRef, useState, useSyncExternalStore, type ReactElement } from "react";
import { Link, useNavigate } from "react-router";
import { useStore } from "zustand";

import { ApiError } from "../../api/client";
import type { ReadOnlyReason } from "../../api/drafts";
import { flowOf } from "../../canvas/Canvas";
import { useCanvas, useCanvasModel } from "../../canvas/CanvasModel";
import { runCommand, type CanvasActions } from "../../canvas/commands";
import { replaceDocument, setTitle } from "../../edit";
import { readDocument } from "../../model";
import { Button, IconButton } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Menu } from "../../ui/Menu";
import { Problem } from "../../ui/Notice";
import { clock } from "../../ui/time";
import { announce, toast } from "../../ui/toasts";
import { refresh } from "../data";
import { useMay } from "../session";
import { StartDialog } from "../start/StartDialog";
import { saveFile } from "../workflows/files";
import { ConflictDialog, NewerVersionDialog } from "./ConflictDialog";
import type { EditorSession } from "./session";
import { VersionsDialog } from "./VersionsDialog";

interface EditorHeaderProps {
  session: EditorSession;
  actions: CanvasActions;
  onReopen: () => void;
}

export function EditorHeader({ session, actions, onReopen }: EditorHeaderProps): ReactElement {
  const model = useCanvasModel();
  const navigate = useNavigate();
  const { workflow } = session.opened;
  const document = useCanvas((view) => view.document);
  const isList = useCanvas((view) => view.list);
  const mayStart = useMay("operator");
  const [dialog, setDialog] = useState<"versions" | "start" | "publish" | "discard" | null>(null);
  const [published, setPublished] = useState<{ version: number; name: string } | null>(workflow === null ? null : { version: workflow.version, name: workflow.name });
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const file = useRef<HTMLInputElement>(null);
  const { store, isReadOnly } = model;

  const publish = (activate: boolean) => {
    setBusy(true);
    setProblem(null);
    session
      .publish({ activate })
      .then(
        (saved) => {
          setPublished({ version: saved.version, name: saved.name });
          refresh("list_workflows", "list_drafts", "list_versions");
          toast(
            <>
              Published as version {saved.version} of <code>{saved.name}</code>.
              {saved.activeVersion !== saved.version && ` Starts still take version ${saved.activeVersion}.`}
            </>,
            saved.activeVersion === saved.version ? { action: { label: "Start it", run: () => setDialog("start") } } : {},
          );
          announce(`Published as version ${saved.version}`);
        },
        (failure: unknown) => {
          setProblem(failure);
          setDialog("publish");
        },
      )
      .finally(() => setBusy(false));
  };

  const isNewerThere = problem instanceof ApiError && problem.code === "VERSION_MISMATCH" && session.saver?.draft?.workflow != null && session.saver.draft.baseVersion !== null;
  const started = published && { workflowID: published.name, name: published.name, title: document.head.title };
  return (
    <header className="editor-head">
      <Link to="/" className="button quiet icon" aria-label="To the workflows">
        <ChevronLeft size={18} />
      </Link>
      <TitleField />
      {published && <span className="badge numbers">v{session.opened.version ?? published.version}</span>}
      {session.saver && <SaveStateText session={session} />}
      <span className="grow" />
      {!isReadOnly && (
        <>
          <IconButton label={undoLabel("Undo", store.undoable.at(-1))} keys="mod+z" icon={<Undo2 size={16} />} disabled={store.undoable.length === 0} onClick={() => store.undo()} />
          <IconButton label={undoLabel("Redo", store.redoable.at(-1))} keys="mod+shift+z" icon={<Redo2 size={16} />} disabled={store.redoable.length === 0} onClick={() => store.redo()} />
        </>
      )}
      <IconButton label={isList ? "Show the canvas" : "Show as a list"} icon={isList ? <Workflow size={16} /> : <List size={16} />} aria-pressed={isList} onClick={() => model.set({ list: !isList })} />
      <Menu
        trigger={
          <Button look="quiet" aria-label="More">
            More <ChevronDown size={14} />
          </Button>
        }
        entries={[
          ...(isReadOnly ? [] : [{ label: "Tidy up", icon: <Sparkles size={15} />, onSelect: () => void runCommand("tidy", model, flowOf(model), actions) }]),
          ...(isReadOnly || published === null ? [] : [{ label: "Publish without activating", icon: <Rocket size={15} />, onSelect: () => publish(false) }]),
          ...(published ? [{ label: "Versions…", icon: <History size={15} />, onSelect: () => setDialog("versions") }] : []),
          ...(published && mayStart ? [{ label: "Start a run…", icon: <Play size={15} />, onSelect: () => setDialog("start") }] : []),
          ...(published ? [{ label: "Runs", icon: <List size={15} />, onSelect: () => void navigate(`/runs?workflow=${encodeURIComponent(published.name)}`) }] : []),
          null,
          { label: "Export as a file", icon: <Download size={15} />, onSelect: () => saveFile(`${document.head.name ?? published?.name ?? "workflow"}.json`, session.text) },
          ...(isReadOnly ? [] : [{ label: "Import a file…", icon: <FileUp size={15} />, onSelect: () => file.current?.click() }]),
          null,
          { label: "All commands", onSelect: () => model.set({ commands: true }) },
          { label: "Keys", onSelect: () => model.set({ help: true }) },
          ...(isReadOnly ? [] : [null, { label: "Discard the draft…", icon: <Trash2 size={15} />, danger: true, onSelect: () => setDialog("discard") }]),
        ]}
      />
      {actions.test && (
        <Button onClick={actions.test}>
          <Play size={14} /> Test
        </Button>
      )}
      {!isReadOnly && (
        <Button look="primary" disabled={isBusy} onClick={() => publish(true)}>
          <Rocket size={14} /> Publish
        </Button>
      )}
      <input
        ref={file}
        type="file"
        hidden
        accept="application/json,.json"
        aria-label="File to import"
        onChange={(event) => {
          const [chosen] = event.target.files ?? [];
          event.target.value = "";
          if (chosen) void chosen.text().then((text) => model.try(() => replaceDocument(store, `Import ${chosen.name}`, readDocument(text))));
        }}
      />
      {dialog === "versions" && published && <VersionsDialog session={session} workflow={published.name} onClose={() => setDialog(null)} />}
      {dialog === "start" && started && <StartDialog workflow={started} onClose={() => setDialog(null)} />}
      {dialog === "publish" && isNewerThere && <NewerVersionDialog session={session} onClose={() => setDialog(null)} />}
      {dialog === "publish" && !isNewerThere && (
        <Dialog open onClose={() => setDialog(null)} title="It could not be published" footer={<Button onClick={() => setDialog(null)}>Close</Button>}>
          <Problem error={problem} />
        </Dialog>
      )}
      {dialog === "discard" && <DiscardDialog session={session} onClose={() => setDialog(null)} onReopen={onReopen} />}
    </header>
  );
}

function undoLabel(verb: string, name: string | undefined): string {
  return name === undefined ? verb : `${verb}: ${name}`;
}

function TitleField(): ReactElement {
  const model = useCanvasModel();
  const title = useCanvas((view) => view.document.head.title ?? "");
  return (
    <input
      className="title-field"
      aria-label="Title of the workflow"
      placeholder="Untitled"
      value={title}
      readOnly={model.isReadOnly}
      maxLength={255}
      autoComplete="off"
      onChange={(event) => model.try(() => setTitle(model.store, event.target.value))}
      onBlur={() => model.store.endBurst()}
    />
  );
}

/** `saved 12:04 · saving · offline, kept here · conflict, not being saved · read-only`. */
function SaveStateText({ session }: { session: EditorSession }): ReactElement {
  const saver = session.saver!;
  const state = useSyncExternalStore(
    (changed) => saver.subscribe(changed),
    () => saver.state,
  );
  const others = useStore(session.otherTabs);
  const [isResolving, setResolving] = useState(false);
  const words = {
    saved: state.kind === "saved" && state.at !== null ? `saved ${clock(Date.parse(state.at))}` : "no changes",
    saving: "saving",
    offline: "isKept" in state && !state.isKept ? "offline, not saved yet" : "offline, kept here",
    readOnly: state.kind === "readOnly" ? `read-only: ${WHY_READ_ONLY[state.reason]}` : "",
    refused: "not being saved",
    conflict: "conflict, not being saved",
  }[state.kind];
  return (
    <span className="save-state" data-state={state.kind} role="status">
      {state.kind === "offline" && <CloudOff size={14} aria-hidden />}
      {words}
      {state.kind === "refused" && <span className="small"> ({state.error.message})</span>}
      {state.kind === "conflict" && (
        <Button small onClick={() => setResolving(true)}>
          Resolve…
        </Button>
      )}
      {isResolving && state.kind === "conflict" && <ConflictDialog session={session} theirs={state.theirs} onClose={() => setResolving(false)} />}
      {others > 0 && <span className="badge">open in {others === 1 ? "another tab" : `${others} other tabs`}</span>}
    </span>
  );
}

const WHY_READ_ONLY: Record<ReadOnlyReason, string> = {
  role: "your key may not change workflows",
  signedOut: "you are signed out",
  gone: "the draft was deleted",
};

function DiscardDialog({ session, onClose, onReopen }: { session: EditorSession; onClose: () => void; onReopen: () => void }): ReactElement {
  const navigate = useNavigate();
  const [problem, setProblem] = useState<unknown>(null);
  const discard = () => {
    session.discard().then(() => {
      refresh("list_drafts");
      onClose();
      if (session.opened.workflow === null) void navigate("/");
      else onReopen();
    }, setProblem);
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title="Discard the draft?"
      about={session.opened.workflow === null ? "It has not been published: nothing of it is left." : "The canvas goes back to the newest version."}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" onClick={discard}>
            Discard
          </Button>
        </>
      }
    >
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}

