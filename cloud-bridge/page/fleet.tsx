import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { isAway, problemWords, severityOf, shortState, shownProblems } from '../../core/policy/fleet/problem-order.ts'
import type { FleetRow } from '../../core/wire/protocol/http/devices.ts'
import { age, compact, percent, unknown } from '../commands/figures.ts'
import type { FleetModel } from './fleet-model.ts'
import { type FleetItem, fleetItems, type ListView, labelNames, problemCounts, type SortKey, stateCounts } from './fleet-rows.ts'
import { type MetricsModel, totalOf } from './metrics.ts'
import { useModel, useTask } from './model.ts'
import { Facts, labelList, Notice, Stale, StillReading } from './parts.tsx'
import { VirtualList } from './virtual-list.tsx'

interface Column {
  readonly title: string
  /** CSS class of its cells. */
  readonly name: string
  readonly sort?: SortKey
  /** Whether the first click shows the largest first. */
  readonly isDescending?: boolean
  cell(row: FleetRow, fleet: FleetModel): ComponentChildren
}

const columns: readonly Column[] = [
  { title: 'Device', name: 'id', sort: 'id', cell: ({ id }) => <a href={`#/device/${encodeURIComponent(id)}`}>{id}</a> },
  { title: 'State', name: 'state', sort: 'problems', cell: stateCell },
  { title: '°C', name: 'num heat', sort: 'hottestC', isDescending: true, cell: heatCell },
  { title: 'Battery', name: 'num', sort: 'batteryPercent', cell: (row) => unit(percent(row.batteryPercent), '%') },
  {
    title: 'Link ↑ ↓ B/s',
    name: 'num link',
    sort: 'upBytesPerS',
    cell: ({ upBytesPerS, downBytesPerS }) => `${compact(upBytesPerS)} ${compact(downBytesPerS)}`,
  },
  { title: 'Tokens/s', name: 'num', sort: 'tokensPerS', isDescending: true, cell: (row) => compact(row.tokensPerS) },
  { title: 'Jobs', name: 'num', sort: 'jobs', isDescending: true, cell: (row) => compact(row.jobs) },
  {
    title: 'Model',
    name: 'model',
    sort: 'model',
    cell: ({ model, module }) => [model ?? unknown, module].filter(Boolean).join(' · '),
  },
  { title: 'Version', name: 'version', sort: 'agent', cell: ({ agent }) => agent ?? unknown },
  { title: 'Labels', name: 'labels', cell: ({ labels }) => labelList(labels) },
  { title: 'Seen', name: 'num seen', sort: 'seenS', cell: (row, fleet) => age(fleet.seenS(row)) },
]

const unit = (text: string, name: string) => (text === unknown ? text : `${text} ${name}`)

function heatCell({ hottestC, isThrottled }: FleetRow) {
  const text = hottestC === null ? unknown : String(Math.round(hottestC))
  return isThrottled ? <strong title="its clocks are throttled">{text} !</strong> : text
}

function stateCell(row: FleetRow) {
  const problems = shownProblems(row)
  const text = problems
    .map(({ kind, detail }) => (detail === '' ? problemWords(kind) : `${problemWords(kind)}: ${detail}`))
    .join('; ')
  return (
    <span class={`dot ${moodOf(row)}`} title={text}>
      {text === '' ? shortState(row) : text}
    </span>
  )
}

export function moodOf(row: FleetRow): 'bad' | 'warn' | 'good' | 'quiet' {
  if (row.state === 'lost') return 'bad'
  if (shownProblems(row).length > 0) return 'warn'
  return row.state === 'ready' ? 'good' : 'quiet'
}

/** A row of a phone has two lines. */
const narrow = matchMedia('(max-width: 44rem)')
const rowHeightNow = () => (narrow.matches ? 52 : 30)

interface Props {
  readonly fleet: FleetModel
  readonly metrics: MetricsModel
}

/** The fleet as a list, those devices first that need attention. */
export function FleetPage({ fleet, metrics }: Props) {
  useModel(fleet, 400)
  useTask((signal) => metrics.follow(signal), [metrics])
  const [view, setView] = useState<ListView>({ filter: '', sort: 'problems', isDescending: false, group: '' })
  const [rowHeight, setRowHeight] = useState(rowHeightNow)
  useEffect(() => {
    const change = () => setRowHeight(rowHeightNow())
    narrow.addEventListener('change', change)
    return () => narrow.removeEventListener('change', change)
  }, [])
  const rows = [...fleet.rows]
  const items = fleetItems(rows, view)
  const isLoaded = fleet.bridge !== undefined
  // For measurements: the first rows are in the document.
  useEffect(() => {
    if (isLoaded) performance.mark('brim-fleet-shown')
  }, [isLoaded])
  if (!isLoaded) return <StillReading what="the fleet" problem={fleet.problem} />
  return (
    <section class="fill">
      <h1 class="sr">Fleet</h1>
      <Head fleet={fleet} metrics={metrics} rows={rows} />
      <Problems rows={rows} view={view} setView={setView} />
      <Choice rows={rows} view={view} setView={setView} count={items.filter(({ kind }) => kind === 'device').length} />
      <VirtualList
        label="Devices, those with problems first"
        items={items}
        rowHeight={rowHeight}
        keyOf={(item: FleetItem) => (item.kind === 'device' ? item.row.id : `group ${item.label}`)}
        head={columns.map((column) => <ColumnHead column={column} view={view} setView={setView} key={column.title} />)}
        render={(item) =>
          item.kind === 'group' ? (
            <span role="cell" class="group">
              {item.label} <span class="dim">{item.count}</span>
            </span>
          ) : (
            columns.map(({ name, title, cell }) => (
              <span role="cell" class={`${name} ${isAway(item.row) && name.startsWith('num') ? 'away' : ''}`} key={title}>
                {cell(item.row, fleet)}
              </span>
            ))
          )
        }
      />
    </section>
  )
}

interface Viewed {
  readonly view: ListView
  setView(view: ListView): void
}

function ColumnHead({
  column: { title, name, sort, isDescending = false },
  view,
  setView,
}: Viewed & { readonly column: Column }) {
  const isSorted = sort !== undefined && view.sort === sort
  const order = isSorted ? { 'aria-sort': view.isDescending ? ('descending' as const) : ('ascending' as const) } : {}
  const mark = isSorted ? (view.isDescending ? ' ↓' : ' ↑') : ''
  return (
    <span role="columnheader" class={name} {...order}>
      {sort === undefined ? (
        title
      ) : (
        <button
          type="button"
          class="plain"
          onClick={() => setView({ ...view, sort, isDescending: isSorted ? !view.isDescending : isDescending })}
        >
          {title}
          {mark}
        </button>
      )}
    </span>
  )
}

/** As the metrics name them. */
const jobStates = ['queued', 'under_way', 'dead'] as const

function Head({ fleet, metrics: { latest }, rows }: Props & { readonly rows: readonly FleetRow[] }) {
  const { bridge, version, problems } = fleet.bridge!
  const states = [...stateCounts(rows)].sort(([a], [b]) => a.localeCompare(b))
  return (
    <>
      <Facts
        of={{
          Bridge: `${bridge} ${version}`,
          Devices: states.map(([state, count]) => `${count} ${state}`).join(', ') || 'none yet',
          Usable: String(rows.filter(({ unusable }) => unusable === null).length),
          Sessions: latest.size > 0 && String(totalOf(latest, 'brim_hat_sessions')),
          Jobs: jobStates.map((state) => `${latest.get(`brim_jobs{state="${state}"}`) ?? 0} ${state}`).join(', '),
        }}
      />
      <Stale problem={fleet.problem} />
      {problems.map(({ kind, detail, fix }) => (
        <Notice text={`${detail}: ${fix}`} isProblem key={kind} />
      ))}
    </>
  )
}

function Problems({ rows, view, setView }: Viewed & { readonly rows: readonly FleetRow[] }) {
  const kinds = [...problemCounts(rows)].sort(([a], [b]) => severityOf(a) - severityOf(b))
  if (kinds.length === 0) return null
  return (
    <ul class="chips" aria-label="Problems">
      {kinds.map(([kind, count]) => {
        // Of `unusable: link` the whole kind cannot be one word of the filter.
        const word = kind.split(' ').at(-1)!
        const isOn = view.filter === word
        return (
          <li key={kind}>
            <button
              type="button"
              class={`chip ${kind === 'lost' ? 'bad' : 'warn'}`}
              aria-pressed={isOn}
              onClick={() => setView({ ...view, filter: isOn ? '' : word })}
            >
              {count} {problemWords(kind)}
            </button>
          </li>
        )
      })}
    </ul>
  )
}

function Choice({ rows, view, setView, count }: Viewed & { readonly rows: readonly FleetRow[]; readonly count: number }) {
  const names = useMemo(() => labelNames(rows), [rows])
  return (
    <div class="bar">
      <label class="grow">
        <span class="sr">Filter</span>
        <input
          type="search"
          placeholder="filter: site=lab, lost, orin …"
          value={view.filter}
          onInput={({ currentTarget }) => setView({ ...view, filter: currentTarget.value })}
        />
      </label>
      <label>
        Group by{' '}
        <select value={view.group} onChange={({ currentTarget }) => setView({ ...view, group: currentTarget.value })}>
          <option value="">nothing</option>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <span class="dim" aria-live="polite">
        {count} of {rows.length}
      </span>
    </div>
  )
}
