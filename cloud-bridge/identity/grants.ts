import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/kit/base/clock.ts'
import { isSameSecret } from '../../core/kit/base/same-secret.ts'
import type { MqttLogin } from '../../core/wire/protocol/identity.ts'
import { AccessTokens } from './access-tokens.ts'
import type { PresenceGate } from './gate.ts'
import type { IdentityStore } from './store.ts'

/** Lifetime of a grant that its device does not renew. */
export const grantMs = 15 * 60_000

/** A device's permission to connect. Each token that the device signs for renews it. */
interface Grant {
  readonly id: string
  publicKey: string
  /** Monotonic. */
  untilMs: number
  /** Of the control plane; resolves when the broker knows it. */
  readonly mqttLogin: Promise<MqttLogin | undefined>
}

export interface GrantsOptions {
  readonly store: Pick<IdentityStore, 'device' | 'approvedKeys' | 'version' | 'keyOf'>
  readonly bridge: string
  /** Whether callers must prove their identity from the start. */
  readonly authRequired: boolean
  readonly clock: Clock
}

/** The grants of devices, and the tokens that prove them. A token of an earlier grant of the device is void. */
export class Grants implements PresenceGate {
  /** The bridge's own password for its control plane. */
  readonly ownToken: string
  readonly #bridge: string
  readonly #store: GrantsOptions['store']
  readonly #clock: Clock
  readonly #tokens: AccessTokens
  /** In the order of their ends. */
  readonly #grants = new Map<string, Grant>()
  /** Version of the store when its revocations were last read. */
  #checkedVersion: string | undefined
  #authRequired: boolean

  constructor({ store, bridge, authRequired, clock }: GrantsOptions) {
    this.#store = store
    this.#bridge = bridge
    this.#authRequired = authRequired
    this.#clock = clock
    this.#tokens = new AccessTokens(clock)
    this.ownToken = randomBytes(32).toString('base64url')
  }

  get authRequired(): boolean {
    return this.#authRequired
  }

  requireAuth(): void {
    this.#authRequired = true
  }

  get(device: string): Grant | undefined {
    return this.#grants.get(device)
  }

  begin(device: string, publicKey: string, mqttLogin: Promise<MqttLogin | undefined>): Grant {
    const grant = { id: randomBytes(8).toString('hex'), publicKey, untilMs: 0, mqttLogin }
    this.#grants.set(device, grant)
    return grant
  }

  replaceKey(device: string, former: string, publicKey: string): void {
    const grant = this.#grants.get(device)
    if (grant?.publicKey === former) grant.publicKey = publicKey
  }

  /** @returns an access token, valid for `grantMs` */
  renew(device: string, grant: Grant): string {
    grant.untilMs = this.#clock.nowMs() + grantMs
    this.#grants.delete(device)
    this.#grants.set(device, grant)
    return this.#tokens.mint(`device-${device}`, grant.id, grantMs)
  }

  /** @returns whether the device had a grant */
  end(device: string): boolean {
    return this.#grants.delete(device)
  }

  /** Grants that have expired, or whose device was revoked or has another key. */
  invalid(): { readonly device: string; readonly revoked: boolean }[] {
    const revoked = this.#revoked().map((device) => ({ device, revoked: true }))
    const nowMs = this.#clock.nowMs()
    for (const [device, { untilMs }] of this.#grants) {
      if (nowMs < untilMs) break
      revoked.push({ device, revoked: false })
    }
    return revoked
  }

  /** Looks only after a change of the store: this is called each second, and a fleet has thousands of grants. */
  #revoked(): string[] {
    const version = this.#store.version()
    if (version === this.#checkedVersion) return []
    this.#checkedVersion = version
    const keys = this.#store.approvedKeys()
    return [...this.#grants].flatMap(([device, { publicKey }]) => (keys.get(device) === publicKey ? [] : [device]))
  }

  subjectOf(token: string): string | undefined {
    const key = this.#store.keyOf(token)
    if (key) return `${key.role}-${key.name}`
    if (isSameSecret(token, this.ownToken)) return `bridge-${this.#bridge}`
    const read = this.#tokens.read(token)
    if (!read?.subject.startsWith('device-')) return read?.subject
    return this.#isGranted(read.subject, read.grant) ? read.subject : undefined
  }

  isPresent(clientId: string): boolean {
    return clientId === `bridge-${this.#bridge}` || this.#isGranted(clientId)
  }

  /** @param id of the grant; undefined: any */
  #isGranted(clientId: string, id?: string): boolean {
    const device = clientId.slice('device-'.length)
    const grant = clientId.startsWith('device-') ? this.#grants.get(device) : undefined
    if (!grant || this.#clock.nowMs() >= grant.untilMs || (id ?? grant.id) !== grant.id) return false
    // A revocation takes effect at once, though the token would be valid for minutes.
    const known = this.#store.device(device)
    return known?.status === 'approved' && known.publicKey === grant.publicKey
  }
}
