import { BrimError } from '../../core/base/errors.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { type BridgeChoice, chooseBridge } from '../../core/policy/link/choose-bridge.ts'
import type { DeadBands } from '../../core/policy/telemetry/dead-bands.ts'
import type { DeviceCondition } from '../../core/protocol/device-condition.ts'
import type { BridgeState } from '../../core/protocol/messages.ts'
import type { DeviceTopic } from '../../core/protocol/topics.ts'
import { measuredOf, startTelemetry } from '../telemetry/telemetry.ts'
import { type ControlLinkOptions, createControlLink } from './control-link.ts'
import { unreachableHint } from './data-connection.ts'
import { createDataLink } from './data-link.ts'
import type { LinkSession, SessionOptions } from './link-session.ts'
import { withTimeout } from './with-timeout.ts'

/** How long somebody who asks waits for the broker, and then for a bridge's retained state. */
const patienceMs = 3_000

export interface LinkStatus {
  /** Control plane. */
  readonly broker: 'connected' | 'unreachable'
  /** Data plane. */
  readonly bridge: 'connected' | 'unreachable' | 'mismatch'
  /** Id of the bridge that was joined last. */
  readonly bridgeId?: string
  /** Its data plane. */
  readonly dataUrl?: string
  /** That this bridge has said to hold. */
  readonly sessions?: number
}

/** The device's way to its bridge: found through the control plane, used through the data plane. */
export interface BridgeLink {
  /** Nothing is connected before; whoever joins under a device's id takes the place of who had it. */
  start(): void
  status(): LinkStatus
  /** A bridge hears what is said on the control plane. */
  readonly hasBridge: boolean
  /** @returns whether the broker has it */
  publish(leaf: DeviceTopic, message: string): Promise<boolean>
  /** @throws BrimError BRIDGE_UNREACHABLE, BUNDLE_MISMATCH, SESSION_REFUSED, LINK_LOST, CANCELED */
  open(signal: AbortSignal, wish?: SessionOptions): Promise<LinkSession>
  close(): Promise<void>
}

export interface BridgeLinkOptions extends Omit<ControlLinkOptions, 'onBridges'> {
  readonly speed: DeviceSpeed
  /** How the device fares; undefined before it has been looked at. */
  readonly condition: () => DeviceCondition | undefined
  /** The data plane as seen from here, where it is not where bridges announce it. */
  readonly dataUrl?: string | undefined
  /** Telemetry is published at least so often; 0: never. */
  readonly telemetryS: number
  /** Of figures whose changes are worth a message before that; in place of the usual ones. */
  readonly deadBands: DeadBands
}

export function createBridgeLink(options: BridgeLinkOptions): BridgeLink {
  const { modelId, clock, logger, speed, condition, telemetryS, deadBands } = options
  let states: ReadonlyMap<string, BridgeState> = new Map()
  let choice: BridgeChoice | undefined
  /** Who waits for a bridge to be known. */
  const found = new Set<() => void>()
  const data = createDataLink({ ...options, onLost: consider })
  const control = createControlLink({
    ...options,
    onBridges(now) {
      states = now
      consider()
    },
  })

  const mismatch = (bridge: BridgeChoice) => bridge.modelId !== undefined && bridge.modelId !== modelId

  function consider(): void {
    // A connection that stands is worth more than news: its end will be noticed.
    if (data.connected) return
    const announced = chooseBridge(states, modelId, choice?.bridge)
    if (!announced) return
    const next = { ...announced, data: options.dataUrl ?? announced.data }
    const previous = choice
    choice = next
    if (mismatch(next)) {
      if (next.modelId !== previous?.modelId) logger.error({ err: mismatched(next, modelId) }, 'no session can be opened')
    } else {
      data.connectTo(next.data)
      // It has just started: the wait that its absence had led to is over.
      if (next.birth !== previous?.birth) data.retryNow()
    }
    for (const tell of found) tell()
  }

  /** Until a bridge is known: asks the broker now, then gives its retained states a moment. */
  async function findBridge(signal: AbortSignal): Promise<void> {
    let tell = () => {}
    const known = new Promise<void>((resolve) => {
      tell = resolve
    })
    found.add(tell)
    try {
      if (!control.connected) await withTimeout(patienceMs, Promise.race([known, control.retryNow()]), clock, signal)
      if (!choice && control.connected) await withTimeout(patienceMs, known, clock, signal)
    } finally {
      found.delete(tell)
    }
    if (choice) return
    if (control.refusal) throw control.refusal
    throw control.connected
      ? new BrimError('BRIDGE_UNREACHABLE', `no bridge has announced itself at ${options.url}`, { hint: unreachableHint })
      : new BrimError('BRIDGE_UNREACHABLE', `the broker ${options.url} cannot be reached, so no bridge is known`, {
          hint: 'is the bridge running? --bridge names its MQTT address',
        })
  }

  let telemetry: { stop(): void } | undefined
  return {
    start() {
      control.start()
      if (telemetryS === 0) return
      const measure = () => measuredOf(data.rates, choice?.bridge, speed, condition())
      telemetry ??= startTelemetry({ everyMs: telemetryS * 1_000, deadBands, clock, measure, report: control.report })
    },
    status: () => ({
      broker: control.connected ? 'connected' : 'unreachable',
      bridge: choice && mismatch(choice) ? 'mismatch' : data.isResponsive ? 'connected' : 'unreachable',
      ...(choice ? { bridgeId: choice.bridge, dataUrl: choice.data, sessions: states.get(choice.bridge)?.sessions ?? 0 } : {}),
    }),
    get hasBridge() {
      return control.hasBridge
    },
    publish: control.publish,
    async open(signal, wish) {
      signal.throwIfAborted()
      if (!choice) await findBridge(signal)
      // The bridge may have moved, and only the broker can say where.
      else if (!data.connected && !control.connected) void control.retryNow()
      if (choice && mismatch(choice)) throw mismatched(choice, modelId)
      return data.open(modelId, signal, wish).catch((error: unknown) => {
        // It is there, but does not let us in.
        throw (data.connected ? undefined : control.refusal) ?? error
      })
    },
    async close() {
      telemetry?.stop()
      await control.close()
      await data.close()
    },
  }
}

function mismatched({ bridge, modelId }: BridgeChoice, own: string): BrimError {
  const short = (id: string | undefined) => id?.slice(0, 12)
  return new BrimError(
    'BUNDLE_MISMATCH',
    `this device holds model ${short(own)}…, bridge "${bridge}" serves ${short(modelId)}…: their parts do not fit together`,
    { hint: 'give both the same bundle' },
  )
}
