import type { ComponentChildren } from 'preact'
import { useErrorBoundary } from 'preact/hooks'
import { TurnCard } from './chat.tsx'
import { useModel } from './model.ts'
import { Notice, Select } from './parts.tsx'
import { type ReplayModel, speeds } from './replay-model.ts'

/** Answers of "brim ask --record", shown as they happened. */
export function Replay({ replay }: { readonly replay: ReplayModel }) {
  useModel(replay, 50)
  const open = ([file]: Iterable<File> = []) => file && void replay.open(file)
  return (
    <section
      aria-label="Recorded answers"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault()
        open(event.dataTransfer?.files)
      }}
    >
      <h2>Recorded</h2>
      <p class="bar">
        <label>
          Recording <input type="file" accept=".jsonl" onChange={({ currentTarget }) => open(currentTarget.files ?? [])} />
        </label>
        <button type="button" disabled={replay.answers.length === 0} onClick={() => void replay.play()}>
          Play again
        </button>
        <button type="button" disabled={!replay.playing} onClick={() => replay.finish()}>
          Show all
        </button>
        <Select label="Speed" names={speeds} value={replay.speed} choose={(speed) => replay.choose(speed)} />
        <span class="dim">of “brim ask --record”; drop the file here, or choose it. It stays in this tab.</span>
      </p>
      <Notice text={replay.problem} isProblem />
      {replay.turns.map((turn, at) => (
        <Guarded key={`${replay.runs} ${at}`}>
          <TurnCard turn={turn} isOpen />
        </Guarded>
      ))}
    </section>
  )
}

/** The file may be of any release, and of anyone. */
function Guarded({ children }: { readonly children: ComponentChildren }) {
  const [error] = useErrorBoundary()
  return error ? <Notice text="this answer cannot be shown: its report is of another release" isProblem /> : children
}
