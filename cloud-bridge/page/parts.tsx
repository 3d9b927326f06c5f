import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { visibleText } from '../../core/kit/base/visible-text.ts'
import { errorText } from './api.ts'

interface NoticeProps {
  readonly text: string | undefined
  readonly isProblem?: boolean
}

export const Notice = ({ text, isProblem = false }: NoticeProps) =>
  text ? (
    <p class={isProblem ? 'notice bad' : 'notice'} role="status">
      {visibleText(text)}
    </p>
  ) : null

/** Where what is shown may be out of date. */
export const Stale = ({ problem }: { readonly problem: string | undefined }) => (
  <Notice text={problem && `Not up to date: ${problem}`} isProblem />
)

/** In the place of what has not been read yet. */
export const StillReading = ({ what, problem }: { readonly what: string; readonly problem: string | undefined }) => (
  <Notice text={problem ?? `reading ${what} …`} isProblem={problem !== undefined} />
)

/** Names and figures; those that are unknown are left out. */
export const Facts = ({ of }: { readonly of: Readonly<Record<string, ComponentChildren>> }) => (
  <dl class="facts">
    {Object.entries(of).map(
      ([name, text]) =>
        text && (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ),
    )}
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

interface Action {
  readonly text: string
  /** What a second click confirms; absent: one click is enough. */
  readonly confirm?: string
  /** As the audit log names it. */
  readonly audit: string
  run(): Promise<unknown>
}

/** Changes, which the bridge writes to its audit log; and what became of the last one. */
export function Actions({ of }: { readonly of: readonly (Action | false)[] }) {
  const [asked, setAsked] = useState<string>()
  const [note, setNote] = useState('')
  async function click({ audit, confirm, run }: Action) {
    if (confirm !== undefined && asked !== audit) return setAsked(audit)
    setAsked(undefined)
    setNote(await run().then(() => `done, audited as ${audit}`, errorText))
  }
  return (
    <p class="bar">
      {of.map(
        (action) =>
          action && (
            <button type="button" class={asked === action.audit ? 'danger' : ''} onClick={() => click(action)} key={action.audit}>
              {asked === action.audit ? action.confirm : action.text}
            </button>
          ),
      )}
      <span role="status" class="dim">
        {note}
      </span>
    </p>
  )
}

interface SelectProps<Name extends string> {
  readonly label: string
  readonly names: readonly Name[]
  readonly value: Name
  /** Of the name that is empty. */
  readonly empty?: string
  choose(name: Name): void
}

export const Select = <Name extends string>({ label, names, value, empty, choose }: SelectProps<Name>) => (
  <label>
    {label}{' '}
    <select value={value} onChange={({ currentTarget }) => choose(currentTarget.value as Name)}>
      {names.map((name) => (
        <option value={name} key={name}>
          {name || empty}
        </option>
      ))}
    </select>
  </label>
)

export const labelList = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(' ')

export const clockTime = (iso: string): string => new Date(iso).toLocaleTimeString([], { hour12: false })

/** Times of a few milliseconds, and of hours. */
export function duration(ms: number | null | undefined): string {
  if (ms == null) return '–'
  return ms < 1_000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 1)} s`
}

/** Answers cost fractions of a cent. */
export function dollars(value: number | null | undefined): string {
  if (value == null) return '–'
  if (value > 0 && value < 1e-6) return 'under $0.000001'
  return value === 0 ? '$0' : `$${value < 0.01 ? value.toPrecision(2) : value.toFixed(3)}`
}
