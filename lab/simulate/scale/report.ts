import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import type { MeasuredBridge, ScaleRun } from './capacity.ts'

const runsOf = ({ runs }: BenchDocument) => runs as ScaleRun[]
const percent = (share: number): string => `${(100 * share).toFixed(0)} %`
const short = (value: number): string => (Number.isNaN(value) ? '–' : String(Number(value.toPrecision(3))))

type Row = readonly [name: string, kind: (run: ScaleRun) => string, value: (run: ScaleRun) => string]

const simulated = () => 'simulated'
const measured = ({ isMeasured }: ScaleRun) => (isMeasured ? 'measured' : 'extrapolated from measured')

const rows: readonly Row[] = [
  ['requests per second', simulated, ({ requestsPerS }) => short(requestsPerS)],
  ['bridges with their brokers', measured, ({ bridges }) => String(bridges)],
  ['CPU of each, % of a core', measured, ({ bridgeCpuPercent }) => short(bridgeCpuPercent)],
  ['memory of each, MB', measured, ({ bridgeMb }) => short(bridgeMb)],
  ['GPUs', () => 'given', ({ gpus }) => String(gpus)],
  ['GPUs busy', simulated, ({ gpuBusy }) => percent(gpuBusy)],
  ['boards busy', simulated, ({ boardsBusy }) => percent(boardsBusy)],
  ['phones busy', simulated, ({ phonesBusy }) => percent(phonesBusy)],
  ['up to the cloud, MB/s', simulated, ({ upBytesPerS }) => short(upBytesPerS / 1e6)],
  ['down, MB/s', simulated, ({ downBytesPerS }) => short(downBytesPerS / 1e6)],
  ['mean TTFT of ended answers, ms', simulated, ({ ttftMs }) => short(ttftMs)],
  ['virtual seconds', simulated, ({ simulatedS }) => short(simulatedS)],
  ['memory of the simulator, MB', measured, ({ rssMb }) => short(rssMb)],
  ['time of the simulator, s', measured, ({ tookS }) => short(tookS)],
]

export const scaleReport: BenchReport = {
  title: 'Scale: up to 100,000 devices',
  contents: 'the figures of every size',
  figure(document) {
    const runs = runsOf(document)
    const panel = (title: string, yLabel: string, value: (run: ScaleRun) => number) => ({
      kind: 'bars' as const,
      title,
      yLabel,
      groups: runs.map((run) => ({ label: run.devices.toLocaleString('en'), bars: [{ name: 'needed', value: value(run) }] })),
    })
    return {
      title: 'What a fleet needs',
      subtitle: 'a tenth of a request per second and device',
      columns: 2,
      panels: [
        panel('Bridges (from measurements)', '', ({ bridges }) => bridges),
        panel('GPUs (given)', '', ({ gpus }) => gpus),
        panel('Devices’ bytes up (simulated)', 'MB/s', ({ upBytesPerS }) => upBytesPerS / 1e6),
        panel('Busy GPUs (simulated)', '%', ({ gpuBusy }) => 100 * gpuBusy),
      ],
    }
  },
  figureText: 'Bridges, GPUs and bytes against the number of devices',
  tables(document) {
    const runs = runsOf(document)
    return [
      {
        title: 'Capacity',
        head: ['', ...runs.map(({ devices }) => `${devices.toLocaleString('en')} devices`)],
        rows: rows.map(([name, kind, value]) => [name, ...runs.map((run) => `${value(run)} (${kindOf(name, kind(run))})`)]),
      },
    ]
  },
  findings(document) {
    const [, thousand] = runsOf(document)
    const { mostDevices } = document.conditions.bridge as MeasuredBridge
    if (!thousand) return ''
    const { devices, gpus, gpuBusy, boardsBusy, phonesBusy, upBytesPerS } = thousand
    return `What saturates first:

- The GPUs: the runs were given one for ${(devices / gpus).toFixed(0)} devices, and those of ${devices.toLocaleString('en')} devices are busy ${percent(gpuBusy)} of the time (simulated). That is saturated: a
  fleet with bursts needs more. The least number was not searched for.
- Then bridge and broker: one pair for ${mostDevices.toLocaleString('en')} devices (measured), because a bridge's events have one core.
- The devices' own compute (boards busy ${percent(boardsBusy)}, phones ${percent(phonesBusy)}) and their links (${short(upBytesPerS / devices / 1_000)} kB/s up for each device, of 7,500) have room; neither
  depends on the size of the fleet.`
  },
  conditions({ conditions }) {
    const bridge = conditions.bridge as MeasuredBridge
    return `${String(conditions.cpu)}, ${String(conditions.cores)} cores.

- Simulated: Llama3-8B on H100, one for 12.5 requests per second; 30 % of the devices are Orin NX, which ask privately (HAT), the others Pixel 7
  Pro; both ask the rest by DiSCo. Prompts have 200 tokens (median), answers 80. A larger fleet is simulated for fewer virtual seconds, from
  an empty cloud on: answers under way at the end count as far as they have come, and TTFT is of those that have ended.
- Measured: [bench fleet](../fleet/fleet.md) on ${bridge.measuredAt}: a bridge with its embedded broker and ${bridge.devices.toLocaleString('en')} devices at rest took
  ${short(bridge.cpuPercent)} % of a core and ${short(bridge.rssMb)} MB; it worked with up to ${bridge.mostDevices.toLocaleString('en')}. Other sizes are proportional, which leaves out what a bridge
  takes without devices, and one bridge has at most ${bridge.mostDevices.toLocaleString('en')} devices. The CPU for answers' own messages is not in it.`
  },
}

/** The simulator's own memory and time are always measured. */
const kindOf = (name: string, kind: string): string => (name.includes('simulator') ? 'measured' : kind)
