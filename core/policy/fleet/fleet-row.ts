import type { Device, FleetRow } from '../../wire/protocol/http/devices.ts'
import { type BridgeFacts, whyUnused } from './unused.ts'

/** What the table of a fleet shows of a device. */
export function fleetRowOf(device: Device, bridge: BridgeFacts): FleetRow {
  const blocking = whyUnused(device, bridge).find(({ blocks }) => blocks)
  return { ...figuresOf(device), unusable: blocking ? { kind: blocking.kind, detail: blocking.detail } : null }
}

/** The same without a bridge to compare it with. */
export function figuresOf(device: Device): Omit<FleetRow, 'unusable'> {
  const { id, seenS, jobs, computing, agent, labels, problems, telemetry } = device
  const { device: hardware, power, battery, temperatures, throttling, load, link, answers, bundles } = telemetry ?? {}
  const speeds = Object.values(answers?.decodeTokensPerS ?? {})
  return {
    id,
    state: deviceWord(device),
    module: hardware?.module ?? hardware?.model ?? hardware?.kind ?? null,
    seenS,
    powerW: power?.totalW ?? null,
    batteryPercent: battery?.levelPercent ?? null,
    hottestC: temperatures?.hottestC ?? null,
    isThrottled: throttling?.isThrottled ?? null,
    cpuPercent: load?.cpuPercent ?? null,
    gpuPercent: load?.gpuPercent ?? null,
    upBytesPerS: link?.upBytesPerS ?? null,
    downBytesPerS: link?.downBytesPerS ?? null,
    jobs,
    tokensPerS: speeds.length === 0 ? null : Math.max(...speeds),
    provider: providerInUse(computing),
    model: (bundles?.llm ?? bundles?.slm)?.name ?? null,
    agent,
    labels,
    problems,
  }
}

/** What computes its split model, else its small one. */
export const providerInUse = (computing: Device['computing']): string | null =>
  (computing?.llm ?? computing?.slm)?.provider ?? null

/** A device's state in one word: its enrolment where that keeps it from connecting, else its connection. */
export const deviceWord = ({ state, identity }: Pick<Device, 'state' | 'identity'>): string =>
  identity !== null && identity.status !== 'approved' ? identity.status : (state ?? 'never')
