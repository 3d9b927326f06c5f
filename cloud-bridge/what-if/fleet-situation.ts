import type { AnswerSize } from '../../core/answer/metrics/answer-metrics.ts'
import { median } from '../../core/policy/estimate/quantile.ts'
import { isConnected } from '../../core/policy/fleet/presence.ts'
import type { LoggedStep } from '../../core/wire/protocol/http/bridge.ts'
import type { Device } from '../../core/wire/protocol/http/devices.ts'
import { type WhatIfFact, type WhatIfOption, type WhatIfSituation, whatIfOptions } from '../../core/wire/protocol/http/what-if.ts'

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
  /** CSV for the simulator; of steps, undefined: too little was measured. */
  readonly trace: string
  readonly steps: Readonly<Record<'bridge' | 'device', string | undefined>>
}

/** A simulation of fewer requests says nothing of a fleet; of more, it takes the latest. */
const requestLimits = { min: 20, max: 500 }
/** Fewer steps may all be of one size, of which no machine follows. */
const stepLimits = { min: 50, max: 2_000 }
/** Rows of a stream from which on they are a prompt, from its beginning. */
const promptRows = 64
const bitsPerByte = 8

/** File of a machine that the simulator fits to measured steps. */
export const machineOf = (name: 'bridge' | 'device') => `${name}.yaml`

/** The hardware and the requests that a simulation of this fleet begins with. */
export function fleetSituation({ devices: all, sizes: recorded, steps, model }: FleetFigures): FleetSituation {
  const devices = all.filter(({ state }) => state !== null && isConnected(state))
  const sizes = recorded.slice(-requestLimits.max)
  /** Of an answer, halfway. */
  const context = Math.round(meanOf(sizes.map(({ promptTokens, outputTokens }) => promptTokens + outputTokens / 2)))
  const known: Partial<Record<WhatIfOption, Omit<WhatIfFact, 'option'>>> = {}
  const know = (option: WhatIfOption, value: string | number, basis: WhatIfFact['basis'], note: string) => {
    known[option] = { value: String(value), basis, note }
  }
  const measure = (option: WhatIfOption, read: (device: Device) => number | null | undefined) => {
    const values = devices.flatMap((device) => read(device) || [])
    if (values.length > 0) know(option, Number(median(values).toPrecision(3)), 'measured', `median of ${values.length} devices`)
  }
  const mbits = (bytesPerS = 0) => (bitsPerByte * bytesPerS) / 1e6
  const isMeasured = steps.length >= stepLimits.min && model !== undefined
  if (model !== undefined) know('model', presetOf(model), 'configured', 'model of the bridge')
  if (isMeasured) know('gpu', machineOf('bridge'), 'measured', 'times of the bridge’s latest steps')
  const smallModel = mostOften(devices.flatMap(({ telemetry }) => telemetry?.bundles?.slm?.name ?? []))
  const rates = smallModel === undefined ? undefined : ratesOf(devices, smallModel)
  if (smallModel !== undefined) know('small-model', presetOf(smallModel), 'configured', 'what most connected devices have')
  if (rates) know('board', machineOf('device'), 'measured', rates.note)
  if (devices.length > 0) know('devices', devices.length, 'measured', 'connected now')
  measure('up', ({ telemetry }) => mbits(telemetry?.link?.upBytesPerS ?? 0))
  measure('down', ({ telemetry }) => mbits(telemetry?.link?.downBytesPerS ?? 0))
  measure('rtt', ({ telemetry }) => telemetry?.link?.rttMs)
  return {
    requests: recorded.length,
    minRequests: requestLimits.min,
    facts: whatIfOptions.map((option) => ({ option, ...(known[option] ?? { value: null, basis: 'assumed', note: '' }) })),
    trace: csv('arrival,prompt tokens,output tokens', sizes.map(requestOf)),
    steps: {
      bridge: isMeasured ? csv(stepHead, steps.slice(-stepLimits.max).flatMap(stepOf(context))) : undefined,
      device: rates && csv(stepHead, rates.steps(context)),
    },
  }
}

const requestOf = ({ atMs, promptTokens, outputTokens }: AnswerSize) => [(atMs / 1_000).toFixed(3), promptTokens, outputTokens]

const stepHead = 'rows,context,seconds,streams'
/** A step of several streams is taken for one of equal parts, since the log has no others. */
const stepOf =
  (context: number) =>
  ({ items, tokens, computeMs }: LoggedStep) => {
    const rows = Math.max(1, Math.round(tokens / items))
    return items > 0 && computeMs > 0 ? [[rows, rows > promptRows ? 0 : context, computeMs / 1_000, items]] : []
  }

/** Median rates of the devices that have measured both with this small model. */
function ratesOf(devices: readonly Device[], model: string) {
  const measured = devices.flatMap(({ telemetry }) => {
    const { decodeTokensPerS: decode, prefillTokensPerS: prefill } = telemetry?.answers ?? {}
    return decode?.[model] && prefill?.[model] ? { decode: decode[model], prefill: prefill[model] } : []
  })
  if (measured.length === 0) return undefined
  const [decode, prefill] = [median(measured.map((each) => each.decode)), median(measured.map((each) => each.prefill))]
  return {
    note: `${prefill.toFixed(1)} tokens/s of a prompt, ${decode.toFixed(1)} of an answer with ${model}: median of ${measured.length} devices`,
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

const csv = (head: string, rows: readonly (readonly (string | number)[])[]) => `${[head, ...rows.map(String)].join('\n')}\n`

const meanOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)

function mostOften(names: readonly string[]): string | undefined {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0]
}
