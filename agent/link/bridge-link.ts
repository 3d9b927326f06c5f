import { BrimError } from '../../core/kit/base/errors.ts'
import { shownUrl } from '../../core/kit/base/shown-url.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import type { HistogramWire } from '../../core/policy/estimate/forgetting-histogram.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import { type BridgeChoice, chooseBridge, isMismatch } from '../../core/policy/link/choose-bridge.ts'
import type { LinkStatus } from '../../core/policy/link/choose-link.ts'
import { type BridgeState, noModelId } from '../../core/wire/protocol/messages.ts'
import { shownBroker } from '../../core/wire/protocol/mqtt-url.ts'
import type { DeviceTopic } from '../../core/wire/protocol/topics.ts'
import { ControlLink, type ControlLinkOptions } from './control-link.ts'
import type { DataConnectionOptions } from './data-connection.ts'
import { DataLink } from './data-link.ts'
import { bridgeUnreachable } from './link-errors.ts'
import type { LinkSession, LinkSessionOptions } from './link-session.ts'
import type { ControlService } from './ports.ts'

/** How long a session request waits for the broker, and then for a bridge's retained state. */
const discoveryWaitMs = 3_000

export interface BridgeLinkOptions
  extends Omit<ControlLinkOptions, 'onBridges'>,
    Pick<DataConnectionOptions, 'speed' | 'disclosures' | 'attestation'> {
  /** URL of the data plane as a device that has not enrolled sees it; absent: the URL that the bridge announces. */
  readonly dataUrl?: string | undefined
}

/** The device's link to the bridges of one broker: discovered on the control plane, used on the data plane. */
export class BridgeLink {
  readonly #options: BridgeLinkOptions
  readonly #control: ControlLink
  readonly #data: DataLink
  #states: ReadonlyMap<string, BridgeState> = new Map()
  #modelId: string | undefined
  #choice: BridgeChoice | undefined
  /** Resolvers of requests that wait for a bridge to announce itself. */
  readonly #onDiscovered = new Set<() => void>()

  constructor(options: BridgeLinkOptions) {
    this.#options = options
    this.#data = new DataLink({ ...options, fleetSize: () => this.#control.fleetSize, onLost: () => this.#choose() })
    this.#modelId = options.modelId
    this.#control = new ControlLink({
      ...options,
      onBridges: (states) => {
        this.#states = states
        this.#choose()
      },
    })
  }

  /** Resolves when the bridge has refused this device, because another one uses its id. */
  get idTaken(): Promise<BrimError> {
    return this.#control.idTaken
  }

  get url(): string {
    return this.#options.url
  }

  /** Connects. A bridge replaces any other connection under this device's id. */
  start(services: readonly ControlService[]): void {
    this.#control.start(services)
  }

  /** The device answers with another model from now on, or supports other jobs. */
  setModel(modelId: string | undefined): void {
    this.#modelId = modelId
    this.#control.setModel(modelId)
    this.#choose({ anew: true })
  }

  get status(): LinkStatus {
    const choice = this.#choice
    return {
      broker: this.#control.connected ? 'connected' : 'unreachable',
      bridge: this.#bridgeStatus,
      ...(choice
        ? { bridgeId: choice.bridge, dataUrl: choice.data, sessions: this.#states.get(choice.bridge)?.sessions ?? 0 }
        : {}),
    }
  }

  get #bridgeStatus(): LinkStatus['bridge'] {
    if (this.#choice && isMismatch(this.#choice, this.#modelId)) return 'mismatch'
    if (this.#data.refusal) return 'refused'
    return this.#data.isResponsive ? 'connected' : 'unreachable'
  }

  /** Why no session could be opened now; undefined: a bridge responds. */
  get problem(): BrimError | undefined {
    const choice = this.#choice
    if (choice && isMismatch(choice, this.#modelId)) return mismatchError(choice, this.#modelId)
    if (this.#data.isResponsive) return undefined
    if (this.#data.refusal) return this.#data.refusal
    if (choice && this.#control.connected)
      return bridgeUnreachable(`bridge "${choice.bridge}" at ${shownUrl(choice.data)} does not respond`)
    return this.#control.rejection ?? this.#noBridge()
  }

  /** Whether a bridge receives what the device publishes. */
  get hasBridge(): boolean {
    return this.#control.hasBridge
  }

  /** Whether the broker is connected. */
  get connected(): boolean {
    return this.#control.connected
  }

  /** The chosen bridge and the rates measured to it; undefined while the data plane is not connected. */
  get figures(): { readonly bridge: string; readonly rates: LinkRates } | undefined {
    const { rates } = this.#data
    return rates && this.#choice && { bridge: this.#choice.bridge, rates }
  }

  /** F of the chosen bridge's own model, in ms, as the bridge measures it; undefined: it has announced none. */
  get answerTtftMs(): HistogramWire | undefined {
    return this.#choice && this.#states.get(this.#choice.bridge)?.answerTtftMs
  }

  /** Time between tokens of the chosen bridge's own model, likewise. */
  get answerMsPerToken(): number | undefined {
    return this.#choice && this.#states.get(this.#choice.bridge)?.answerMsPerToken
  }

  /** Publishes below the device's own topic, at least once. @returns whether the broker has acknowledged it */
  publish(leaf: DeviceTopic, message: string): Promise<boolean> {
    return this.#control.publish(leaf, message)
  }

  /** See `ControlLink`. */
  get deltaReceivers(): string | undefined {
    return this.#control.deltaReceivers
  }

  /** Publishes live telemetry. @returns whether the broker has acknowledged it */
  report(message: string): Promise<boolean> {
    return this.#control.report(message)
  }

  /** @throws BrimError BRIDGE_UNREACHABLE, ATTESTATION_REFUSED, BUNDLE_MISMATCH, SESSION_REFUSED, LINK_LOST, CANCELED */
  async open(signal: AbortSignal, options?: LinkSessionOptions): Promise<LinkSession> {
    const modelId = options?.modelId ?? this.#modelId
    if (modelId === undefined) throw new Error('a session needs a model')
    signal.throwIfAborted()
    // Sessions that are open there continue at the other bridge.
    if (this.#isDraining) this.#choose({ anew: true })
    const choice = this.#choice ?? (await this.#discover(signal))
    // The bridge may have moved to another address, which only the broker knows.
    if (!this.#data.connected && !this.#control.connected) void this.#control.retryNow()
    if (isMismatch(choice, modelId)) throw mismatchError(choice, modelId)
    // Chosen for another model, which this bridge does not serve.
    this.#data.connectTo(choice.data)
    return this.#data.open(modelId, signal, options).catch((error: unknown) => {
      // The bridge is there but has rejected the device.
      throw (this.#data.connected ? undefined : this.#control.rejection) ?? error
    })
  }

  async close(): Promise<void> {
    await this.#control.close()
    await this.#data.close()
  }

  /**
   * Chooses a bridge among those announced.
   * @param anew also where the present one is connected and draining
   */
  #choose({ anew = false } = {}): void {
    const modelId = this.#modelId
    const { credentials, dataUrl, logger } = this.#options
    const previous = this.#choice
    const present = previous && { bridge: previous.bridge, isConnected: this.#data.connected && !anew }
    const announced = chooseBridge(this.#states, modelId, present)
    if (!announced) return
    const choice = { ...announced, data: credentials?.dataUrl ?? dataUrl ?? announced.data }
    this.#choice = choice
    if (!isMismatch(choice, modelId)) {
      this.#data.connectTo(choice.data)
      // The bridge has restarted: the back-off from its absence no longer applies.
      if (choice.birth !== previous?.birth) this.#data.retryNow()
    } else if (String(choice.modelIds) !== String(previous?.modelIds))
      logger.error({ err: mismatchError(choice, modelId) }, 'no session can be opened')
    for (const resolve of this.#onDiscovered) resolve()
  }

  /** Connects to the broker at once if need be, then waits briefly for a bridge's retained state. */
  async #discover(signal: AbortSignal): Promise<BridgeChoice> {
    const { clock } = this.#options
    let resolveDiscovered = () => {}
    const discovered = new Promise<void>((resolve) => {
      resolveDiscovered = resolve
    })
    this.#onDiscovered.add(resolveDiscovered)
    try {
      if (!this.#control.connected)
        await withTimeout(discoveryWaitMs, Promise.race([discovered, this.#control.retryNow()]), clock, signal)
      if (!this.#choice && this.#control.connected) await withTimeout(discoveryWaitMs, discovered, clock, signal)
    } finally {
      this.#onDiscovered.delete(resolveDiscovered)
    }
    if (this.#choice) return this.#choice
    throw this.#control.rejection ?? this.#noBridge()
  }

  /** The chosen bridge is about to stop and refuses new sessions. */
  get #isDraining(): boolean {
    return this.#choice !== undefined && this.#states.get(this.#choice.bridge)?.state === 'draining'
  }

  #noBridge(): BrimError {
    const url = shownBroker(this.#options.url)
    if (this.#control.connected) return bridgeUnreachable(`no bridge has announced itself on the broker ${url}`)
    return new BrimError('BRIDGE_UNREACHABLE', `the broker ${url} cannot be reached, so no bridge is known`, {
      hint: 'is the bridge running? --bridge names its MQTT address',
    })
  }
}

function mismatchError({ bridge, modelIds = [] }: BridgeChoice, own: string | undefined): BrimError {
  const short = (id: string | undefined) => `${id?.slice(0, 12)}…`
  const served = modelIds.includes(noModelId) ? 'no bundle' : modelIds.map(short).join(' and ')
  return new BrimError('BUNDLE_MISMATCH', `this device has model ${short(own)}, but bridge "${bridge}" serves ${served}`, {
    hint: 'install the same bundle on both',
  })
}
