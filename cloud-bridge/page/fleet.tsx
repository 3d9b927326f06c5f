import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { isAway, problemWords, severityOf, shortState, shownProblems } from '../../core/policy/fleet/problem-order.ts'
import type { FleetRow } from '../../core/wire/protocol/http/devices.ts'
import { age, compact, percent, unknown } from '../commands/figures.ts'
import type { FleetModel } from './fleet-model.ts'
import { fleetItems, type ListView, labelNames, problemCounts, type SortKey, stateCounts } from './fleet-rows.ts'
import { type MetricsModel, totalOf } from './metrics.ts'
import { useModel, useTask } from './model.ts'
import { Facts, labelList, Notice, Select, Stale, StillReading } from './parts.tsx'
import { VirtualList } from './virtual-list.tsx'

interface Column {
  readonly title: string
  /** CSS class of its cells. */
  readonly name: string
  readonly sort?: SortKey
  cell(row: FleetRow, fleet: FleetModel): ComponentChildren
}

const columns: readonly Column[] = [
  { title: 'Device', name: 'id', sort: 'id', cell: ({ id }) => <a href={`#/device/${id}`}>{id}</a> },
  { title: 'State', name: 'state', sort: 'problems', cell: stateCell },
  { title: '°C', name: 'num', sort: 'hottestC', cell: heatCell },
  { title: 'Battery', name: 'num', sort: 'batteryPercent', cell: (row) => percent(row.batteryPercent).replace(/\d$/, '$& %') },
  { title: 'Link ↑', name: 'num link', sort: 'upBytesPerS', cell: (row) => compact(row.upBytesPerS) },
  { title: '↓ B/s', name: 'num link', sort: 'downBytesPerS', cell: (row) => compact(row.downBytesPerS) },
  { title: 'Tokens/s', name: 'num', sort: 'tokensPerS', cell: (row) => compact(row.tokensPerS) },
  { title: 'Jobs', name: 'num wide', sort: 'jobs', cell: (row) => compact(row.jobs) },
  { title: 'Module', name: 'wide', sort: 'module', cell: ({ module }) => module ?? unknown },
  { title: 'Model', name: 'wide', sort: 'model', cell: ({ model }) => model ?? unknown },
  { title: 'Version', name: 'wide dim', sort: 'agent', cell: ({ agent }) => agent ?? unknown },
  { title: 'Labels', name: 'wide dim', cell: ({ labels }) => labelList(labels) },
  { title: 'Seen', name: 'num wide', sort: 'seenS', cell: (row, fleet) => age(fleet.seenS(row)) },
]

function heatCell({ hottestC, isThrottled }: FleetRow) {
  const text = hottestC === null ? unknown : String(Math.round(hottestC))
  return isThrottled ? <strong title="its clocks are throttled">{text} !</strong> : text
}

function stateCell(row: FleetRow) {
  const problems = shownProblems(row)
  const mood = row.state === 'lost' ? 'bad' : problems.length > 0 ? 'warn' : row.state === 'ready' ? 'good' : 'quiet'
  const text = problems.map(({ kind, detail }) => [problemWords(kind), detail].filter(Boolean).join(': ')).join('; ')
  return (
    <span class={`dot ${mood}`} title={text}>
      {text || shortState(row)}
    </span>
  )
}

/** A row of a phone has two lines. */
const narrow = matchMedia('(max-width: 44rem)')

interface Props {
  readonly fleet: FleetModel
  readonly metrics: MetricsModel
}

/** The fleet as a list, those devices first that need attention. */
export function FleetPage({ fleet, metrics }: Props) {
  useModel(fleet, 400)
  useTask((signal) => metrics.follow(signal), [metrics])
  const [view, setView] = useState<ListView>({ filter: '', sort: 'problems', isDescending: false, group: '' })
  const isLoaded = fleet.bridge !== undefined
  // For measurements: the first rows are in the document.
  useEffect(() => void (isLoaded && performance.mark('brim-fleet-shown')), [isLoaded])
  if (!isLoaded) return <StillReading what="the fleet" problem={fleet.problem} />
  const rows = [...fleet.rows]
  const items = fleetItems(rows, view)
  return (
    <section class="fill">
      <h1 class="sr">Fleet</h1>
      <Head fleet={fleet} metrics={metrics} />
      <Selection rows={rows} view={view} setView={setView} count={items.filter(({ kind }) => kind === 'device').length} />
      <VirtualList
        label="Devices, those with problems first"
        items={items}
        rowHeight={narrow.matches ? 52 : 28}
        keyOf={(item) => (item.kind === 'device' ? item.row.id : `group ${item.label}`)}
        head={columns.map((column) => headCell(column, view, setView))}
        render={(item) =>
          item.kind === 'group' ? (
            <span role="cell" class="group">
              {item.label} <span class="dim">{item.count}</span>
            </span>
          ) : (
            columns.map(({ name, title, cell }) => (
              <span role="cell" class={isAway(item.row) && name.startsWith('num') ? `${name} dim` : name} key={title}>
                {cell(item.row, fleet)}
              </span>
            ))
          )
        }
      />
    </section>
  )
}

function headCell({ title, name, sort }: Column, view: ListView, setView: (view: ListView) => void) {
  const order = sort !== undefined && view.sort === sort && (view.isDescending ? 'descending' : 'ascending')
  return (
    <span role="columnheader" class={name} aria-sort={order || undefined} key={title}>
      {sort === undefined ? (
        title
      ) : (
        <button type="button" class="plain" onClick={() => setView({ ...view, sort, isDescending: order === 'ascending' })}>
          {title} {order === 'ascending' ? '↑' : order === 'descending' ? '↓' : ''}
        </button>
      )}
    </span>
  )
}

/** As the metrics name them. */
const jobStates = ['queued', 'under_way', 'dead'] as const

function Head({ fleet, metrics: { latest } }: Props) {
  const { bridge, version, problems } = fleet.bridge!
  const counts = [...stateCounts(fleet.rows)].sort(([a], [b]) => a.localeCompare(b)).map(([state, count]) => `${count} ${state}`)
  const jobs = jobStates.map((state) => `${latest.get(`brim_jobs{state="${state}"}`) ?? 0} ${state.replace('_', ' ')}`)
  return (
    <>
      <Facts
        of={{
          Bridge: `${bridge} ${version}`,
          Devices: counts.join(', ') || 'none yet',
          Usable: String([...fleet.rows].filter(({ unusable }) => unusable === null).length),
          Sessions: latest.size > 0 && String(totalOf(latest, 'brim_hat_sessions')),
          Jobs: latest.size > 0 && jobs.join(', '),
        }}
      />
      <Stale problem={fleet.problem} />
      {problems.map(({ kind, detail, fix }) => (
        <Notice text={`${detail}: ${fix}`} isProblem key={kind} />
      ))}
    </>
  )
}

interface SelectionProps {
  readonly rows: readonly FleetRow[]
  readonly count: number
  readonly view: ListView
  setView(view: ListView): void
}

function Selection({ rows, count, view, setView }: SelectionProps) {
  const kinds = [...problemCounts(rows)].sort(([a], [b]) => severityOf(a) - severityOf(b))
  return (
    <div class="bar">
      {kinds.map(([kind, count]) => {
        // Of `unusable: link` the whole kind cannot be one word of the filter.
        const word = kind.split(' ').at(-1)!
        const isOn = view.filter === word
        const filter = () => setView({ ...view, filter: isOn ? '' : word })
        return (
          <button
            type="button"
            class={`chip ${kind === 'lost' ? 'bad' : 'warn'}`}
            aria-pressed={isOn}
            onClick={filter}
            key={kind}
          >
            {count} {problemWords(kind)}
          </button>
        )
      })}
      <input
        class="grow"
        type="search"
        aria-label="Filter"
        placeholder="filter: site=lab, lost, orin …"
        value={view.filter}
        onInput={({ currentTarget }) => setView({ ...view, filter: currentTarget.value })}
      />
      <Select
        label="Group by"
        names={['', ...labelNames(rows)]}
        empty="nothing"
        value={view.group}
        choose={(group) => setView({ ...view, group })}
      />
      <span class="dim" aria-live="polite">
        {count} of {rows.length}
      </span>
    </div>
  )
}
