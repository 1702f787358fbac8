/** The small dialogs of the canvas: connect, rename, all commands, help. */

import { Command } from "cmdk";
import { Dialog as Radix } from "radix-ui";
import { useState, type ReactElement, type ReactNode } from "react";

import { connect, KEYMAP, setName, shownChord, type CommandName } from "../edit";
import type { NodeKey } from "../model";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { flowOf } from "./Canvas";
import { useCanvas, useCanvasModel, type CanvasModel } from "./CanvasModel";
import { runCommand, type CanvasActions } from "./commands";
import { focusNode } from "./focus";
import { titleOf } from "./flow";
import { hasEntry } from "./nodeTypes";
import { TypeIcon } from "./icons";

export function CanvasDialogs({ actions }: { actions: CanvasActions }): ReactElement {
  return (
    <>
      <ConnectDialog />
      <RenameDialog />
      <CommandsDialog actions={actions} />
      <HelpDialog />
    </>
  );
}

function Finder({ title, placeholder, onClose, children }: { title: string; placeholder: string; onClose: () => void; children: ReactNode }): ReactElement {
  return (
    <Radix.Root open onOpenChange={(open) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="overlay clear" />
        <Radix.Content className="dialog finder" aria-describedby={undefined} onCloseAutoFocus={(event) => event.preventDefault()}>
          <Radix.Title className="visually-hidden">{title}</Radix.Title>
          <Command label={title} loop>
            <Command.Input autoFocus placeholder={placeholder} />
            <Command.List>
              <Command.Empty>Nothing is called so.</Command.Empty>
              {children}
            </Command.List>
          </Command>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** First the exit, where there are several, then the node. */
function ConnectDialog(): ReactElement | null {
  const key = useCanvas((view) => view.connecting);
  return key === null ? null : <ConnectSteps key={key} from={key} />;
}

function ConnectSteps({ from }: { from: NodeKey }): ReactElement | null {
  const model = useCanvasModel();
  const document = useCanvas((view) => view.document);
  const node = document.nodes.get(from);
  const exits = node === undefined ? [] : model.types.viewOf(node, undefined);
  const [handle, setHandle] = useState<string | null>(exits.length === 1 ? exits[0]!.id : null);
  if (node === undefined) return null;
  const close = () => {
    model.set({ connecting: null });
    focusNode(model, flowOf(model), from);
  };
  if (exits.length === 0) {
    return <Dialog open onClose={close} title={`${titleOf(node)} has no exit`} about="Nothing can come behind it." footer={<Button onClick={close}>Close</Button>} />;
  }
  if (handle === null) {
    return (
      <Finder key="exit" title={`Connect ${titleOf(node)}: which exit?`} placeholder={`Connect ${titleOf(node)}: which exit?`} onClose={close}>
        {exits.map((exit) => (
          <Command.Item key={exit.id} value={exit.id} keywords={[exit.title]} onSelect={() => setHandle(exit.id)}>
            <span className="finder-words">
              <span>{exit.title}</span>
              {exit.detail && <code className="faint">{exit.detail}</code>}
            </span>
          </Command.Item>
        ))}
      </Finder>
    );
  }
  const targets = [...document.nodes.values()].filter((each) => hasEntry(each.type));
  return (
    <Finder key="target" title={`Connect ${titleOf(node)} to`} placeholder={`Connect ${titleOf(node)}${exits.length > 1 ? `, exit ${handle},` : ""} to…`} onClose={close}>
      {targets.map((target) => {
        const type = model.types.get(target.type);
        return (
          <Command.Item
            key={target.key}
            value={target.id}
            keywords={[titleOf(target), target.type]}
            onSelect={() => {
              model.try(() => connect(model.store, from, handle, target.key));
              close();
            }}
          >
            <span className="node-icon" data-category={type?.category}>
              <TypeIcon icon={type?.icon} title={type?.title ?? target.type} size={16} />
            </span>
            <span className="finder-words">
              <span>{titleOf(target)}</span>
              <span className="faint small">{type?.title ?? target.type}</span>
            </span>
          </Command.Item>
        );
      })}
    </Finder>
  );
}

function RenameDialog(): ReactElement | null {
  const model = useCanvasModel();
  const key = useCanvas((view) => view.renaming);
  const name = useCanvas((view) => (view.renaming === null ? "" : titleOf(view.document.nodes.get(view.renaming))));
  if (key === null) return null;
  return <RenameForm key={key} model={model} node={key} name={name} />;
}

function RenameForm({ model, node, name }: { model: CanvasModel; node: NodeKey; name: string }): ReactElement {
  const [typed, setTyped] = useState(name);
  const close = () => {
    model.set({ renaming: null });
    focusNode(model, flowOf(model), node);
  };
  return (
    <Dialog
      open
      onClose={close}
      title="Rename the node"
      about="What people read on it. Templates are not touched: they name variables, not nodes."
      onSubmit={() => {
        model.try(() => setName(model.store, node, typed.trim()));
        close();
      }}
      footer={
        <>
          <Button onClick={close}>Leave it</Button>
          <Button type="submit" look="primary">
            Rename
          </Button>
        </>
      }
    >
      <div className="field">
        <label htmlFor="node-name">Name</label>
        <input id="node-name" className="input" value={typed} onFocus={(event) => event.target.select()} onChange={(event) => setTyped(event.target.value)} autoComplete="off" />
      </div>
    </Dialog>
  );
}

/** Commands that are about a key press and not about an intent are not listed. */
const UNLISTED: ReadonlySet<CommandName> = new Set(["commands", "copy", "cut", "paste", "menu", "endMove", "close", "walkLeft", "walkRight", "walkUp", "walkDown"]);

function CommandsDialog({ actions }: { actions: CanvasActions }): ReactElement | null {
  const model = useCanvasModel();
  const isOpen = useCanvas((view) => view.commands);
  const nodes = useCanvas((view) => view.document.nodes);
  if (!isOpen) return null;
  const close = () => model.set({ commands: false });
  const listed = KEYMAP.filter((binding) => binding.mode === undefined && !UNLISTED.has(binding.command));
  return (
    <Finder title="All commands" placeholder="What do you want to do, or which node do you look for?" onClose={close}>
      <Command.Group heading="Commands">
        {listed.map(({ command, title, chords }) => (
          <Command.Item
            key={command}
            value={title}
            onSelect={() => {
              close();
              runCommand(command, model, flowOf(model), actions);
            }}
          >
            <span className="grow">{title}</span>
            <kbd>{shownChord(chords[0]!)}</kbd>
          </Command.Item>
        ))}
      </Command.Group>
      <Command.Group heading="Nodes">
        {[...nodes.values()].map((node) => (
          <Command.Item
            key={node.key}
            value={`node ${node.id}`}
            keywords={[titleOf(node), node.type]}
            onSelect={() => {
              close();
              focusNode(model, flowOf(model), node.key);
            }}
          >
            <span className="finder-words">
              <span>{titleOf(node)}</span>
              <span className="faint small">{model.types.get(node.type)?.title ?? node.type}</span>
            </span>
          </Command.Item>
        ))}
      </Command.Group>
    </Finder>
  );
}

function HelpDialog(): ReactElement | null {
  const model = useCanvasModel();
  const isOpen = useCanvas((view) => view.help);
  const close = () => model.set({ help: false });
  return (
    <Dialog open={isOpen} onClose={close} wide title="Keys of the canvas" about="They work while the canvas has the focus. Tab leaves it.">
      <dl className="help-keys">
        {KEYMAP.filter(({ mode }) => mode === undefined).map(({ command, title, chords }) => (
          <div key={command}>
            <dt>
              {chords.map((chord) => (
                <kbd key={chord}>{shownChord(chord)}</kbd>
              ))}
            </dt>
            <dd>{title}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>M</kbd>
          </dt>
          <dd>then arrows move by the grid, with Shift by five; Enter ends</dd>
        </div>
      </dl>
    </Dialog>
  );
}
