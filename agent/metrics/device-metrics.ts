import type { Registry } from 'prom-client'
import { declareMetrics, type Read } from '../../core/answer/metrics/declare-metrics.ts'
import type { Measurements } from '../../core/policy/telemetry/dead-bands.ts'

type Section<Name extends keyof Measurements> = NonNullable<Measurements[Name]> | undefined
type Figure = number | null | undefined

const share = (percent: Figure): Figure => (percent == null ? percent : percent / 100)
const perThousand = (ms: Figure): Figure => (ms == null ? ms : ms / 1_000)
const hertz = (mhz: Figure): Figure => (mhz == null ? mhz : mhz * 1e6)

/** A gauge: its name without the prefix, its help, its label, and what it shows of a sample. */
type Row = readonly [name: string, help: string, label: string | undefined, read: (sample: Measurements) => ReturnType<Read>]

const ofLink = ({ link }: Measurements): Section<'link'> => link ?? undefined
const byInterface = (sample: Measurements, of: 'rxBytesPerS' | 'txBytesPerS') =>
  Object.fromEntries(Object.entries(sample.network ?? {}).map(([name, each]) => [name, each[of]]))

/** Units are base units, as Prometheus advises. */
const rows: readonly Row[] = [
  ['uptime_seconds', 'Since the device was started.', undefined, ({ device }) => device?.uptimeS],
  [
    'load_ratio',
    'Load since the sample before, 0 to 1: of cpu, gpu, or emc, the memory controller of a Jetson.',
    'unit',
    ({ load }) => ({ cpu: share(load?.cpuPercent), gpu: share(load?.gpuPercent), emc: share(load?.emcPercent) }),
  ],
  [
    'clock_hertz',
    'Clock rate.',
    'unit',
    ({ load }) => ({ cpu: hertz(load?.cpuMHz), gpu: hertz(load?.gpuMHz), emc: hertz(load?.emcMHz) }),
  ],
  [
    'memory_bytes',
    'Memory: total, free (available without swapping), swap_total, swap_free, and gpu_used of a Jetson.',
    'kind',
    ({ memory }) => ({
      total: memory?.totalBytes,
      free: memory?.freeBytes,
      swap_total: memory?.swapTotalBytes,
      swap_free: memory?.swapFreeBytes,
      gpu_used: memory?.gpuUsedBytes,
    }),
  ],
  ['temperature_celsius', 'Temperature of a zone.', 'zone', ({ temperatures }) => temperatures?.zonesC],
  ['hottest_celsius', 'Temperature of the hottest zone.', undefined, ({ temperatures }) => temperatures?.hottestC],
  [
    'throttled',
    '1 where heat or over-current throttles its clocks.',
    undefined,
    ({ throttling }) => (throttling?.isThrottled == null ? undefined : Number(throttling.isThrottled)),
  ],
  ['rail_watts', 'Power of a rail.', 'rail', ({ power }) => power?.railsW],
  ['power_watts', 'Power of the device, as far as its sensors tell.', undefined, ({ power }) => power?.totalW],
  [
    'joules_per_token',
    'Energy per token while answers are in progress, of all answers.',
    undefined,
    ({ power }) => power?.jPerToken,
  ],
  ['battery_ratio', 'Level of the battery, 0 to 1.', undefined, ({ battery }) => share(battery?.levelPercent)],
  ['fan_ratio', 'Duty of the fan, 0 to 1.', undefined, ({ fan }) => share(fan?.dutyPercent)],
  [
    'disk_bytes',
    "Disk of the agent's state folder: total and free.",
    'kind',
    ({ disk }) => ({ total: disk?.totalBytes, free: disk?.freeBytes }),
  ],
  [
    'network_receive_bytes_per_second',
    'Bytes that a network interface receives.',
    'interface',
    (sample) => byInterface(sample, 'rxBytesPerS'),
  ],
  [
    'network_transmit_bytes_per_second',
    'Bytes that a network interface sends.',
    'interface',
    (sample) => byInterface(sample, 'txBytesPerS'),
  ],
  ['link_connected', '1 while the data plane of a bridge is connected.', undefined, ({ link }) => Number(link != null)],
  [
    'link_bytes_per_second',
    'Rate of the link to the bridge as measured (HAT: β): up or down.',
    'direction',
    (sample) => ({ up: ofLink(sample)?.upBytesPerS, down: ofLink(sample)?.downBytesPerS }),
  ],
  ['link_round_trip_seconds', 'Round trip to the bridge.', undefined, (sample) => perThousand(ofLink(sample)?.rttMs)],
  [
    'prefill_tokens_per_second',
    "Prefill rate of the device's part of the split model.",
    undefined,
    ({ speed }) => speed.prefillTokensPerS,
  ],
  ['draft_step_seconds', 'Time to draft one token (HAT: γ).', undefined, ({ speed }) => perThousand(speed.draftStepMs)],
  ['decode_tokens_per_second', 'Decode rate of one answer, smoothed.', 'model_name', ({ answers }) => answers?.decodeTokensPerS],
  [
    'jobs',
    'Jobs on the device: waiting or running.',
    'state',
    ({ jobs }) => jobs && { waiting: jobs.waiting, running: jobs.running },
  ],
  ['spool_messages', 'Messages that wait for a bridge.', undefined, ({ spool }) => spool?.waiting],
  ['spool_bytes', 'Size of the database of these messages.', undefined, ({ spool }) => spool?.bytes],
  [
    'server_spent_dollars',
    'What the server of --server has cost within the window of the budget.',
    undefined,
    ({ spending }) => spending?.server.dollars,
  ],
]

/**
 * The device's telemetry as metrics, from the same sample: what is unknown has no value.
 * @param measure the latest measurements
 */
export function deviceMetrics(registry: Registry, prefix: string, measure: () => Measurements): void {
  const { collectedGauge, collectedCounter } = declareMetrics(registry)
  for (const [name, help, label, read] of rows) collectedGauge(`${prefix}_${name}`, help, () => read(measure()), label)
  collectedCounter(
    `${prefix}_spool_dropped_total`,
    'Messages dropped since the agent was installed, by reason: full, old or unstored.',
    () => measure().spool?.dropped,
    'reason',
  )
}
