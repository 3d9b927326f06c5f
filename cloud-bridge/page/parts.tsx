import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { errorText } from './api.ts'

export const Notice = ({ text, isProblem = false }: { readonly text: string; readonly isProblem?: boolean }) => (
  <p class={isProblem ? 'notice bad' : 'notice'} role="status">
    {text}
  </p>
)

/** Where what is shown may be out of date. */
export const Stale = ({ problem }: { readonly problem: string | undefined }) =>
  problem === undefined ? null : <Notice text={`Not up to date: ${problem}`} isProblem />

/** In the place of what has not been read yet. */
export const StillReading = ({ what, problem }: { readonly what: string; readonly problem: string | undefined }) => (
  <Notice text={problem ?? `reading ${what} …`} isProblem={problem !== undefined} />
)

/** Names and figures; those that are unknown are left out. */
export const Facts = ({ of }: { readonly of: Readonly<Record<string, ComponentChildren>> }) => (
  <dl class="facts">
    {Object.entries(of)
      .filter(([, text]) => text)
      .map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
  </dl>
)

interface TableProps {
  readonly label: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly ComponentChildren[])[]
}

export const Table = ({ label, head, rows }: TableProps) => (
  <section class="scroll" tabIndex={0} aria-label={label}>
    <table>
      <thead>
        <tr>
          {head.map((title) => (
            <th scope="col" key={title}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((cells, row) => (
          <tr key={row}>
            {cells.map((cell, at) => (
              <td key={head[at]}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </section>
)

interface ActionProps {
  readonly text: string
  /** What a second click confirms; absent: one click is enough. */
  readonly confirm?: string
  /** As the audit log names it. */
  readonly audit: string
  readonly run: () => Promise<unknown>
  readonly isAllowed: boolean
}

/** A change, which the bridge writes to its audit log. Without the role of an operator it is not offered. */
export function Action({ text, confirm, audit, run, isAllowed }: ActionProps) {
  const [state, setState] = useState<{ readonly is: 'idle' | 'asked' | 'busy' } | { readonly is: 'done'; readonly note: string }>(
    { is: 'idle' },
  )
  if (!isAllowed) return null
  async function click() {
    if (confirm !== undefined && state.is !== 'asked') return setState({ is: 'asked' })
    setState({ is: 'busy' })
    try {
      await run()
      setState({ is: 'done', note: `done, audited as ${audit}` })
    } catch (error) {
      setState({ is: 'done', note: errorText(error) })
    }
  }
  return (
    <span class="action">
      <button
        type="button"
        class={state.is === 'asked' ? 'danger' : ''}
        disabled={state.is === 'busy'}
        onClick={click}
        onBlur={() => state.is === 'asked' && setState({ is: 'idle' })}
      >
        {state.is === 'asked' ? confirm : text}
      </button>
      <span role="status">{state.is === 'done' ? state.note : ''}</span>
    </span>
  )
}

export const labelList = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(' ')

export const clockTime = (iso: string): string => new Date(iso).toLocaleTimeString([], { hour12: false })

/** Times of a few milliseconds, and of hours. */
export const duration = (ms: number | null | undefined): string =>
  ms == null
    ? '–'
    : ms < 10
      ? `${ms.toFixed(1)} ms`
      : ms < 1_000
        ? `${Math.round(ms)} ms`
        : `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 1)} s`

/** Answers cost fractions of a cent. */
export const dollars = (value: number | null | undefined): string =>
  value == null ? '–' : value === 0 ? '$0' : `$${value < 0.01 ? value.toPrecision(2) : value.toFixed(3)}`
