import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import { barPanel } from '../../frame/panels.ts'
import { type Column, tableOf, toPercent, toShort } from '../../frame/tables.ts'
import type { ServiceLevel } from '../needed-gpus.ts'
import type { MeasuredBridge, ScaleRun } from './capacity.ts'

const runsOf = ({ runs }: BenchDocument) => runs as ScaleRun[]
const percent = (share: number): string => toPercent(share, share < 0.1 ? 2 : 0)
const short = (value: number): string => (Number.isNaN(value) ? '–' : toShort(value, 3))
const many = (devices: number): string => devices.toLocaleString('en')

type Row = readonly [name: string, kind: (run: ScaleRun) => string, value: (run: ScaleRun) => string]

const simulated = () => 'simulated'
const measured = () => 'measured'
const fromBridge = ({ isMeasured }: ScaleRun) => (isMeasured ? 'measured' : 'extrapolated from measured')

const rows: readonly Row[] = [
  ['requests per second', () => 'given', ({ requestsPerS }) => short(requestsPerS)],
  ['bridges with their brokers', fromBridge, ({ bridges }) => String(bridges)],
  ['CPU of each, % of a core', fromBridge, ({ bridgeCpuPercent }) => short(bridgeCpuPercent)],
  ['memory of each, MB', fromBridge, ({ bridgeMb }) => short(bridgeMb)],
  ['GPUs', ({ isSearched }) => (isSearched ? 'simulated, searched' : 'extrapolated from simulated'), ({ gpus }) => String(gpus)],
  ['P95 of TTFT, ms', simulated, ({ ttftP95Ms }) => short(ttftP95Ms)],
  ['mean TTFT, ms', simulated, ({ ttftMs }) => short(ttftMs)],
  ['stalls, of reading time', simulated, ({ stalls }) => percent(stalls)],
  [
    'refused',
    simulated,
    ({ refused }) =>
      Object.entries(refused)
        .map(([reason, count]) => `${count}: ${reason}`)
        .join(', ') || '0',
  ],
  ['level kept', simulated, ({ keepsLevel }) => (keepsLevel ? 'yes' : 'no')],
  ['sketches, of the tokens of long answers', simulated, ({ sketchedShare }) => percent(sketchedShare)],
  ['GPUs busy', simulated, ({ gpuBusy }) => percent(gpuBusy)],
  ['boards busy', simulated, ({ boardsBusy }) => percent(boardsBusy)],
  ['phones busy', simulated, ({ phonesBusy }) => percent(phonesBusy)],
  ['up to the cloud, MB/s', simulated, ({ upBytesPerS }) => short(upBytesPerS / 1e6)],
  ['down, MB/s', simulated, ({ downBytesPerS }) => short(downBytesPerS / 1e6)],
  ['virtual seconds', () => 'given', ({ seconds }) => short(seconds)],
  ['events of the simulator', simulated, ({ events }) => many(events)],
  ['its memory, MB', measured, ({ rssMb }) => short(rssMb)],
  ['its time, s', measured, ({ tookS }) => short(tookS)],
]

/** Of a device's link, per second, that the fleet's scenario gives it. */
const linkBytesPerS = { up: 7.5e6, down: 12.5e6 }

/** How far each thing is used, the most first: what is first saturates first. */
function use({ devices, gpuBusy, bridgeCpuPercent, boardsBusy, phonesBusy, upBytesPerS, downBytesPerS }: ScaleRun) {
  const shares: [string, number][] = [
    ['GPUs', gpuBusy],
    ['a core of each bridge (telemetry alone, measured)', bridgeCpuPercent / 100],
    ['boards', boardsBusy],
    ['phones', phonesBusy],
    ['uplinks of devices', upBytesPerS / devices / linkBytesPerS.up],
    ['downlinks of devices', downBytesPerS / devices / linkBytesPerS.down],
  ]
  return shares.sort(([, a], [, b]) => b - a)
}

export const scaleReport: BenchReport = {
  title: 'Scale: up to 100,000 devices',
  contents: 'the figures of every size',
  figure(document) {
    const runs = runsOf(document)
    const panel = (title: string, yLabel: string, value: (run: ScaleRun) => number) =>
      barPanel(
        title,
        yLabel,
        runs.map((run) => [many(run.devices), 'needed', value(run)]),
      )
    return {
      title: 'What a fleet needs',
      subtitle: 'a tenth of a request per second and device',
      columns: 2,
      panels: [
        panel('Bridges (from measurements)', '', ({ bridges }) => bridges),
        panel('GPUs (searched up to 1,000 devices)', '', ({ gpus }) => gpus),
        panel('Devices’ bytes up (simulated)', 'MB/s', ({ upBytesPerS }) => upBytesPerS / 1e6),
        panel('P95 of TTFT (simulated)', 's', ({ ttftP95Ms }) => ttftP95Ms / 1_000),
      ],
    }
  },
  figureText: 'Bridges, GPUs, bytes and P95 of TTFT against the number of devices',
  tables(document) {
    const runs = runsOf(document)
    const columns = runs.map(
      (run): Column<Row> => [`${many(run.devices)} devices`, ([, kind, value]) => `${value(run)} (${kind(run)})`],
    )
    return [tableOf('Capacity', rows, [['', ([name]) => name], ...columns])]
  },
  findings(document) {
    const runs = runsOf(document)
    const { bridge, largestSearched } = document.conditions as { bridge: MeasuredBridge; largestSearched: number }
    const searched = runs.find(({ devices }) => devices === largestSearched)
    const largest = runs.at(-1)
    if (!searched || !largest) return ''
    const [first, ...others] = use(searched).map(([name, share]) => `${name} ${percent(share)}`)
    const later = runs.filter(({ isSearched }) => !isSearched)
    const kept = later.filter(({ keepsLevel }) => keepsLevel).map(({ devices }) => many(devices))
    return `What saturates first:

- Used the most by ${many(largestSearched)} devices: ${first}; then ${others.join(', ')}. The share of bridge and broker grows with the fleet up to ${many(bridge.mostDevices)}
  devices for each pair, the others do not depend on its size.
- GPUs: one for ${(searched.devices / searched.gpus).toFixed(0)} devices (${short(searched.requestsPerS / searched.gpus)} requests/s) keeps a mean TTFT of at most ${short(searched.level.ttftMeanMs / 1_000)} s, a P95 of at most ${short(searched.level.ttftP95Ms / 1_000)} s and stalls of at most ${percent(searched.level.stalls)} with ${many(searched.devices)}
  devices, searched. As many for each device keep it with ${kept.length > 0 ? kept.join(' and ') : 'none of the larger fleets'} for the virtual seconds that were simulated, ${later.map(({ devices, seconds }) => `${short(seconds)} s with ${many(devices)}`).join(', ')}:
  too few to see a burst, so that this verifies that nothing else gets in the way of so many, rather than the number itself.
- Bridges and brokers: ${largest.bridges} pairs for ${many(largest.devices)} devices, because a bridge's events have one core. A larger core or more bridges help, more GPUs do not.`
  },
  conditions({ conditions }) {
    const { bridge, goal, largestSearched } = conditions as unknown as {
      bridge: MeasuredBridge
      goal: ServiceLevel
      largestSearched: number
    }
    return `${String(conditions.cpu)}, ${String(conditions.cores)} cores.

- Simulated: Llama3-8B on H100; 30 % of the devices are Orin NX, which ask privately (HAT) and expand sketches, the others Pixel 7 Pro. Of the
  requests 30 % are private, 10 % long ones of all devices (PICE), 60 % others (DiSCo). Prompts have 200 tokens (median), answers 80, long ones 300.
- The level: a mean TTFT of at most ${goal.ttftMeanMs / 1_000} s, a P95 of at most ${goal.ttftP95Ms / 1_000} s and stalls of at most ${percent(goal.stalls)}; where one GPU for ${String(conditions.perGpuS)} requests/s does not reach that, because devices and
  links take longer, 1.1 times what that reaches. The least number of GPUs is searched for up to ${many(largestSearched)} devices, by bisection.
- A larger fleet is simulated for fewer virtual seconds, from an empty cloud on; requests of the first third do not count. First tokens count
  when they come, stalls of answers that have ended.
- Measured: [bench fleet](../fleet/fleet.md) on ${bridge.measuredAt}: a bridge with its embedded broker and ${many(bridge.devices)} devices at rest took
  ${short(bridge.cpuPercent)} % of a core and ${short(bridge.rssMb)} MB; it worked with up to ${many(bridge.mostDevices)}. Other sizes are proportional, which leaves out what a bridge
  takes without devices, and one bridge has at most ${many(bridge.mostDevices)} devices. The CPU for answers' own messages is not in it.`
  },
}
