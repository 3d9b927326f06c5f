import type { Registry } from 'prom-client'
import { declareMetrics, type Read } from '../../core/answer/metrics/declare-metrics.ts'
import type { Measurements } from '../../core/policy/telemetry/dead-bands.ts'

type Figure = number | null | undefined

const share = (percent: Figure): Figure => (percent == null ? percent : percent / 100)
const seconds = (ms: Figure): Figure => (ms == null ? ms : ms / 1_000)
const hertz = (mhz: Figure): Figure => (mhz == null ? mhz : mhz * 1e6)
const flag = (value: boolean | null | undefined): Figure => (value == null ? value : Number(value))

/** A gauge: its name without the prefix, its help, what it shows of a sample, and the label that tells several values apart. */
type Row = readonly [name: string, help: string, read: (sample: Measurements) => ReturnType<Read>, label?: string]

const byInterface = ({ network = {} }: Measurements, of: 'rxBytesPerS' | 'txBytesPerS') =>
  Object.fromEntries(Object.entries(network).map(([name, each]) => [name, each[of]]))

/** Units are base units, as Prometheus advises. */
const rows: readonly Row[] = [
  ['uptime_seconds', 'Since the device was started.', ({ device }) => device?.uptimeS],
  [
    'load_ratio',
    'Load since the sample before, 0 to 1: of cpu, gpu, or emc, the memory controller of a Jetson.',
    ({ load }) => load && { cpu: share(load.cpuPercent), gpu: share(load.gpuPercent), emc: share(load.emcPercent) },
    'unit',
  ],
  [
    'clock_hertz',
    'Clock rate of the same.',
    ({ load }) => load && { cpu: hertz(load.cpuMHz), gpu: hertz(load.gpuMHz), emc: hertz(load.emcMHz) },
    'unit',
  ],
  [
    'memory_bytes',
    'Memory: total, free (available without swapping), swap_free, and gpu, which the GPU of a Jetson uses.',
    ({ memory: of }) => of && { total: of.totalBytes, free: of.freeBytes, swap_free: of.swapFreeBytes, gpu: of.gpuUsedBytes },
    'kind',
  ],
  ['temperature_celsius', 'Temperature of a zone.', ({ temperatures }) => temperatures?.zonesC, 'zone'],
  ['hottest_celsius', 'Temperature of the hottest zone.', ({ temperatures }) => temperatures?.hottestC],
  ['throttled', '1 where heat or over-current throttles its clocks.', ({ throttling }) => flag(throttling?.isThrottled)],
  ['rail_watts', 'Power of a rail.', ({ power }) => power?.railsW, 'rail'],
  ['power_watts', 'Power of the device, as far as its sensors tell.', ({ power }) => power?.totalW],
  ['joules_per_token', 'Energy per token while answers are in progress, of all answers.', ({ power }) => power?.jPerToken],
  ['battery_ratio', 'Level of the battery, 0 to 1.', ({ battery }) => share(battery?.levelPercent)],
  ['fan_ratio', 'Duty of the fan, 0 to 1.', ({ fan }) => share(fan?.dutyPercent)],
  ['disk_bytes', "Disk of the agent's state folder: total and free.", diskOf, 'kind'],
  ['network_receive_bytes_per_second', 'What an interface receives.', (all) => byInterface(all, 'rxBytesPerS'), 'interface'],
  ['network_transmit_bytes_per_second', 'What an interface sends.', (all) => byInterface(all, 'txBytesPerS'), 'interface'],
  ['link_connected', '1 while the data plane of a bridge is connected.', ({ link }) => Number(link != null)],
  [
    'link_bytes_per_second',
    'Rate of the link to the bridge as measured (HAT: β): up or down.',
    ({ link }) => link && { up: link.upBytesPerS, down: link.downBytesPerS },
    'direction',
  ],
  ['link_round_trip_seconds', 'Round trip to the bridge.', ({ link }) => seconds(link?.rttMs)],
  ['prefill_tokens_per_second', "Prefill rate of the device's part of the split model.", ({ speed }) => speed.prefillTokensPerS],
  ['draft_step_seconds', 'Time to draft one token (HAT: γ).', ({ speed }) => seconds(speed.draftStepMs)],
  ['decode_tokens_per_second', 'Decode rate of one answer.', ({ answers }) => answers?.decodeTokensPerS, 'model_name'],
  ['jobs', 'Jobs on the device: waiting or running.', ({ jobs }) => jobs, 'state'],
  ['spool_messages', 'Messages that wait for a bridge.', ({ spool }) => spool?.waiting],
  ['server_dollars', 'Cost of --server within the window of the budget.', ({ spending }) => spending?.server.dollars],
]

/**
 * The device's telemetry as metrics, from the same sample: what is unknown has no value.
 * @param measure the latest measurements
 */
export function deviceMetrics(registry: Registry, prefix: string, measure: () => Measurements): void {
  const { collectedGauge } = declareMetrics(registry)
  for (const [name, help, read, label] of rows) collectedGauge(`${prefix}_${name}`, help, () => read(measure()), label)
}

function diskOf({ disk }: Measurements) {
  return disk && { total: disk.totalBytes, free: disk.freeBytes }
}
