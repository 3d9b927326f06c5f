import type { AnswerSize } from '../../core/answer/metrics/answer-metrics.ts'
import { median } from '../../core/policy/estimate/quantile.ts'
import { isConnected } from '../../core/policy/fleet/presence.ts'
import type { LoggedStep } from '../../core/wire/protocol/http/bridge.ts'
import type { Device } from '../../core/wire/protocol/http/devices.ts'
import { minWhatIfRequests, type WhatIfFact, type WhatIfSituation } from '../../core/wire/protocol/http/what-if.ts'

/** What the bridge knows of its fleet. */
export interface FleetFigures {
  readonly devices: readonly Device[]
  /** In the order in which they were asked for. */
  readonly sizes: readonly AnswerSize[]
  readonly steps: readonly LoggedStep[]
  /** Name of the first model that answers; undefined: there is none. */
  readonly model: string | undefined
}

export interface FleetSituation extends WhatIfSituation {
  /** CSV files for the simulator; absent: too little was measured. */
  readonly files: { readonly requests: string; readonly bridge?: string | undefined; readonly device?: string | undefined }
}

/** Of the recorded requests, the latest. */
const maxRequests = 500
/** Fewer steps may all be of one size, of which no machine follows. */
const minSteps = 50
const maxSteps = 2_000
/** Rows of a stream from which on they are a prompt, from its beginning. */
const promptRows = 64
const bitsPerByte = 8

/** File of a machine that the simulator fits to what was measured. */
export const machineOf = (name: 'bridge' | 'device') => `${name}.yaml`

/** The hardware and the requests that a simulation of this fleet begins with. */
export function fleetSituation({ devices: all, sizes: recorded, steps, model }: FleetFigures): FleetSituation {
  const devices = all.filter(({ state }) => state !== null && isConnected(state))
  const sizes = recorded.slice(-maxRequests)
  const spanS = ((sizes.at(-1)?.atMs ?? 0) - (sizes[0]?.atMs ?? 0)) / 1_000
  const promptTokens = meanOf(sizes.map((size) => size.promptTokens))
  const outputTokens = meanOf(sizes.map((size) => size.outputTokens))
  const context = Math.round((promptTokens ?? 0) + (outputTokens ?? 0) / 2)
  const smallModel = mostOften(devices.flatMap(({ telemetry }) => telemetry?.bundles?.slm?.name ?? []))
  const rates = smallModel === undefined ? undefined : ratesOf(devices, smallModel)
  const facts: WhatIfFact[] = []
  const know = (option: string, value: WhatIfFact['value'] | undefined, basis: WhatIfFact['basis'], note: string) => {
    if (value !== undefined) facts.push({ option, value, basis, note })
  }
  const ofLinks = (option: string, read: (device: Device) => number | null | undefined, digits = 3) => {
    const values = devices.flatMap((device) => read(device) ?? []).filter((value) => value > 0)
    const value = values.length === 0 ? undefined : Number(median(values).toPrecision(digits))
    know(option, value, 'measured', `median of ${values.length} devices`)
  }
  const mbits = (bytesPerS: number | null | undefined) => bytesPerS && (bitsPerByte * bytesPerS) / 1e6
  know('model', model && presetOf(model), 'configured', 'model of the bridge')
  const isMeasured = steps.length >= minSteps && model !== undefined
  know('gpu', isMeasured ? machineOf('bridge') : undefined, 'measured', 'a machine with the times of the bridge’s latest steps')
  know('smallModel', smallModel && presetOf(smallModel), 'configured', 'what most connected devices have')
  know('board', rates && machineOf('device'), 'measured', rates?.note ?? '')
  know('devices', devices.length || undefined, 'measured', 'connected now')
  ofLinks('up', ({ telemetry }) => mbits(telemetry?.link?.upBytesPerS))
  ofLinks('down', ({ telemetry }) => mbits(telemetry?.link?.downBytesPerS))
  ofLinks('rtt', ({ telemetry }) => telemetry?.link?.rttMs)
  const unplugged = devices.flatMap(({ telemetry }) => {
    const { levelPercent, isPlugged } = telemetry?.battery ?? {}
    return isPlugged === false && levelPercent != null ? levelPercent / 100 : []
  })
  const runsOnBattery = 2 * unplugged.length > devices.length
  know('battery', runsOnBattery ? median(unplugged) : undefined, 'measured', `median of ${unplugged.length} devices`)
  return {
    requests: recorded.length,
    minRequests: minWhatIfRequests,
    ...{ spanS, promptTokens, outputTokens, facts },
    files: {
      requests: csv(['arrival', 'prompt tokens', 'output tokens'], sizes.map(requestOf)),
      bridge: isMeasured ? stepsCsv(steps.slice(-maxSteps).flatMap(stepOf(context))) : undefined,
      device: rates && stepsCsv([...rates.steps(context)]),
    },
  }
}

const requestOf = ({ atMs, promptTokens, outputTokens }: AnswerSize) => [(atMs / 1_000).toFixed(3), promptTokens, outputTokens]

/** A step of several streams is taken for one of equal parts, since the log has no others. */
const stepOf =
  (context: number) =>
  ({ items, tokens, computeMs }: LoggedStep) => {
    const rows = Math.max(1, Math.round(tokens / Math.max(1, items)))
    return items > 0 && computeMs > 0 ? [[rows, rows > promptRows ? 0 : context, computeMs / 1_000, items]] : []
  }

/** Median rates of the devices that have measured both with this small model. */
function ratesOf(devices: readonly Device[], model: string) {
  const measured = devices.flatMap(({ telemetry }) => {
    const { decodeTokensPerS: decode, prefillTokensPerS: prefill } = telemetry?.answers ?? {}
    return decode?.[model] && prefill?.[model] ? { decode: decode[model], prefill: prefill[model] } : []
  })
  if (measured.length === 0) return undefined
  const decode = median(measured.map((each) => each.decode))
  const prefill = median(measured.map((each) => each.prefill))
  const shown = (rate: number) => Number(rate.toPrecision(3))
  return {
    note: `${shown(prefill)} tokens/s of a prompt, ${shown(decode)} of an answer with ${model}: median of ${measured.length} devices`,
    steps: (context: number) => [
      [1, context, 1 / decode, 1],
      [2 * promptRows, 0, (2 * promptRows) / prefill, 1],
    ],
  }
}

/** Presets have the names of checkpoints, in lower case and without what they were trained for. */
const presetOf = (name: string) =>
  name
    .toLowerCase()
    .replace(/-(instruct|chat|it)\b.*$/, '')
    .replaceAll(/[^a-z0-9.-]+/g, '-')
    .replace(/^[.-]+/, '')

const stepsCsv = (rows: readonly (readonly number[])[]) => csv(['rows', 'context', 'seconds', 'streams'], rows)

const csv = (head: readonly string[], rows: readonly (readonly (string | number)[])[]) =>
  `${[head, ...rows].map((row) => row.join(',')).join('\n')}\n`

const meanOf = (values: readonly number[]) =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length

function mostOften(names: readonly string[]): string | undefined {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0]
}
