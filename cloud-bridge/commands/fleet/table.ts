import {
  deviceRank,
  isAway,
  problemWords,
  severityOf,
  shortState,
  shownProblems,
} from '../../../core/policy/fleet/problem-order.ts'
import type { FleetRow, FleetSummary } from '../../../core/wire/protocol/http/devices.ts'
import { age, compact, cutEnd, cutMiddle, percent, unknown } from '../figures.ts'

/** Decides a line's colour. */
export type Mood = 'bad' | 'warning' | 'quiet' | 'plain'
export interface TableLine {
  readonly text: string
  readonly mood: Mood
}

interface Column {
  readonly title: string
  readonly align: 'left' | 'right'
  /** In characters; absent: what the other columns leave. */
  readonly maxWidth?: number
  /** Shown even when unknown for every device. */
  readonly always?: boolean
  readonly cut?: (text: string, width: number) => string
  readonly cell: (device: FleetRow) => string
}

/** The most important columns first; four characters hold any figure. */
const columns: readonly Column[] = [
  { title: 'DEVICE', align: 'left', always: true, cut: cutMiddle, cell: ({ id }) => id },
  { title: 'STATE', align: 'left', maxWidth: 8, always: true, cell: shortState },
  { title: 'MODULE', align: 'left', maxWidth: 9, cell: ({ module }) => module ?? unknown },
  { title: 'SEEN', align: 'right', maxWidth: 4, always: true, cell: ({ seenS }) => age(seenS) },
  { title: 'W', align: 'right', maxWidth: 4, cell: ({ powerW }) => compact(powerW) },
  {
    title: 'BAT',
    align: 'right',
    maxWidth: 4,
    cell: ({ batteryPercent }) => (batteryPercent === null ? unknown : `${percent(batteryPercent)}%`),
  },
  { title: '°C', align: 'right', maxWidth: 4, cell: heatOf },
  { title: 'CPU', align: 'right', maxWidth: 3, cell: ({ cpuPercent }) => percent(cpuPercent) },
  { title: 'GPU', align: 'right', maxWidth: 3, cell: ({ gpuPercent }) => percent(gpuPercent) },
  { title: 'UP', align: 'right', maxWidth: 4, cell: ({ upBytesPerS }) => compact(upBytesPerS) },
  { title: 'DOWN', align: 'right', maxWidth: 4, cell: ({ downBytesPerS }) => compact(downBytesPerS) },
  { title: 'JOBS', align: 'right', maxWidth: 4, always: true, cell: ({ jobs }) => compact(jobs) },
  { title: 'TK/S', align: 'right', maxWidth: 4, cell: ({ tokensPerS }) => compact(tokensPerS) },
]

/** '!' where heat or over-current throttles its clocks. */
function heatOf({ hottestC, isThrottled }: FleetRow): string {
  const mark = isThrottled ? '!' : ''
  return hottestC === null ? `${unknown}${mark}` : `${Math.round(Math.min(999, Math.max(-99, hottestC)))}${mark}`
}

/**
 * The fleet as text: the bridge, the problems, a line per device, those with problems first.
 * @param width of the longest line, at least 60
 * @param isPart the devices were selected by label
 */
export function layOutFleet(status: FleetSummary, width = 80, isPart = false): TableLine[] {
  return [
    ...headOf(status, isPart).flatMap((parts) => wrapParts(parts, width).map((text) => ({ text, mood: 'plain' as const }))),
    ...status.problems.map(({ detail }) => ({ text: cutEnd(`! bridge: ${detail}`, width), mood: 'bad' as const })),
    ...problemLines(status.devices, width),
    ...(status.devices.length === 0 ? [] : [{ text: '', mood: 'plain' as const }, ...tableOf(status.devices, width)]),
  ]
}

function headOf(status: FleetSummary, isPart: boolean): string[][] {
  const { bridge, version, uptimeS, sessions, kvBytes, kvBudgetBytes, jobs, database, devices } = status
  const none = isPart ? 'none has that label' : 'none has connected or enrolled yet'
  const states = new Map<string, number>()
  for (const state of devices.map(shortState)) states.set(state, (states.get(state) ?? 0) + 1)
  const counts = [...states].sort(([a], [b]) => a.localeCompare(b)).map(([state, count]) => `${count} ${state}`)
  const providers = new Map<string, number>()
  for (const { provider } of devices) if (provider !== null) providers.set(provider, (providers.get(provider) ?? 0) + 1)
  const on = [...providers].sort(([a], [b]) => a.localeCompare(b)).map(([provider, count]) => `${count} ${provider}`)
  const usable = devices.filter((device) => device.unusable === null).length
  return [
    [
      `bridge ${bridge}`,
      version,
      `up ${age(uptimeS)}`,
      `${sessions} ${sessions === 1 ? 'session' : 'sessions'}`,
      `KV ${percent((100 * kvBytes) / kvBudgetBytes)} % of ${compact(kvBudgetBytes)}B`,
      `jobs: ${jobs.queued} queued, ${jobs.underWay} under way, ${jobs.dead} dead`,
      database ? placesOf(database) : '',
    ],
    [
      `${devices.length} ${devices.length === 1 ? 'device' : 'devices'}: ${counts.join(', ') || none}${devices.length === 0 ? '' : `; ${usable} usable`}`,
      on.length === 0 ? '' : `on ${on.join(', ')}`,
    ],
  ]
}

function placesOf({ primary, nodes, loads }: NonNullable<FleetSummary['database']>): string {
  const shown = (node: string) => {
    const load = loads.find((each) => each.node === node)
    return load
      ? `${node} (${load.links} ${load.links === 1 ? 'link' : 'links'}, ${load.sessions} active${load.isDraining ? ', draining' : ''})`
      : node
  }
  const standbys = nodes.filter((node) => node !== primary)
  return `primary ${shown(primary)}, ${standbys.length === 0 ? 'no standby' : `standby ${standbys.map(shown).join(', ')}`}`
}

/** Joins parts into as few lines as possible. */
function wrapParts(parts: readonly string[], width: number): string[] {
  const lines: string[] = []
  for (const part of parts.filter((text) => text !== '').map((text) => cutEnd(text, width))) {
    const longer = `${lines.at(-1)}  ${part}`
    if (lines.length > 0 && longer.length <= width) lines[lines.length - 1] = longer
    else lines.push(part)
  }
  return lines
}

function problemLines(devices: readonly FleetRow[], width: number): TableLine[] {
  const all = devices.map(({ id, ...device }) => ({ id, problems: shownProblems(device) }))
  const kinds = [...new Set(all.flatMap(({ problems }) => problems.map(({ kind }) => kind)))]
  return kinds
    .sort((a, b) => severityOf(a) - severityOf(b))
    .map((kind) => {
      const affected = all.flatMap(({ id, problems }) => {
        const details = problems.filter((problem) => problem.kind === kind).map(({ detail }) => detail)
        return details.length === 0 ? [] : [{ id, detail: details.filter((detail) => detail !== '').join(', ') }]
      })
      const head = `! ${affected.length} ${problemWords(kind)}: `
      const full = head + affected.map(({ id, detail }) => (detail === '' ? id : `${id} (${detail})`)).join(', ')
      // Names are kept before details.
      const text = full.length <= width ? full : head + affected.map(({ id }) => id).join(', ')
      return { text: cutEnd(text, width), mood: kind === 'lost' ? 'bad' : 'warning' }
    })
}

function tableOf(devices: readonly FleetRow[], width: number): TableLine[] {
  const ranks = new Map(devices.map((device) => [device, deviceRank(device)]))
  const sorted = [...devices].sort((a, b) => ranks.get(a)! - ranks.get(b)! || a.id.localeCompare(b.id))
  const away = sorted.map(isAway)
  const shown = columns.flatMap((column) => {
    const { title, maxWidth, always, cell } = column
    const cells = sorted.map((device, n) => (away[n] && always !== true ? unknown : cell(device)))
    if (always !== true && cells.every((text) => text === unknown)) return []
    const longest = cells.reduce((most, { length }) => Math.max(most, length), title.length)
    return [{ ...column, cells, wide: Math.max(title.length, Math.min(longest, maxWidth ?? longest)) }]
  })
  const taken = shown.reduce((sum, { maxWidth, wide }) => sum + (maxWidth === undefined ? 0 : wide), shown.length - 1)
  const texts = shown.map(({ title, cells, maxWidth, wide, align, cut = cutEnd }) => {
    const room = maxWidth === undefined ? Math.min(wide, width - taken) : wide
    const layOut = (cell: string) => {
      const text = cut(cell, room)
      return align === 'left' ? text.padEnd(room) : text.padStart(room)
    }
    // Of thousands of devices, most have the same states and percentages.
    const known = new Map([...new Set([title, ...cells])].map((cell) => [cell, layOut(cell)]))
    return [title, ...cells].map((cell) => known.get(cell)!)
  })
  const line = (n: number) =>
    texts
      .map((column) => column[n]!)
      .join(' ')
      .trimEnd()
  const moodOf = (device: FleetRow): Mood => {
    if (shortState(device) === 'lost') return 'bad'
    if (shownProblems(device).length > 0) return 'warning'
    return shortState(device) === 'ready' ? 'plain' : 'quiet'
  }
  return [{ text: line(0), mood: 'quiet' }, ...sorted.map((device, n) => ({ text: line(n + 1), mood: moodOf(device) }))]
}
