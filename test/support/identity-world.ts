import { generateKeyPairSync, sign } from 'node:crypto'
import { Grants } from '../../cloud-bridge/identity/grants.ts'
import { createIdentities, type Identities, type IdentitiesOptions } from '../../cloud-bridge/identity/identities.ts'
import { type IdentityStore, openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { EnrolRequest, GrantRequest, RenewKeyRequest, type Signed, signedBytes } from '../../core/wire/protocol/identity.ts'
import { type FakeClock, fakeClock } from './fake-clock.ts'
import { silentLogger } from './silent-logger.ts'
import { tempDir } from './temp-dir.ts'

/** A key of a device; `sign` returns base64url. */
export interface TestKey {
  readonly publicKey: string
  sign(bytes: Uint8Array): string
}

export function newTestKey(): TestKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return {
    publicKey: publicKey.export({ format: 'jwk' }).x!,
    sign: (bytes) => sign(null, bytes, privateKey).toString('base64url'),
  }
}

/** What identifies devices at a bridge, without its HTTP server: requests are parsed as the server parses them. */
export interface IdentityWorld extends Disposable {
  readonly stateDir: string
  readonly store: IdentityStore
  readonly grants: Grants
  readonly identities: Identities
  readonly clock: FakeClock
  /** @returns the token's secret */
  token(options?: { uses?: number; approve?: boolean }): string
  enrol(device: string, key: TestKey, token: string, fields?: object, from?: string): ReturnType<Identities['enrol']>
  grantAccess(device: string, key: TestKey, hardware?: string, renewsKey?: boolean): ReturnType<Identities['grantAccess']>
  renewKey(device: string, key: TestKey, newKey: TestKey, fields?: object): ReturnType<Identities['renewKey']>
}

export function openIdentityWorld(options: Partial<IdentitiesOptions> = {}): IdentityWorld {
  const dir = tempDir()
  const clock = fakeClock()
  const store = openIdentityStore(dir.path)
  const [bridge, fleet] = ['bridge-1', 'default']
  const grants = new Grants({ store, bridge, authRequired: true, clock })
  const identities = createIdentities({
    store,
    grants,
    bridge,
    fleet,
    keys: { validMs: 0 },
    failedProofsPerMinute: 30,
    authRequiredOnceEnrolled: true,
    controlPlane: { mqttPort: 1883, mqttTls: false },
    onGrantEnd() {},
    clock,
    logger: silentLogger(),
    ...options,
  })
  const proofOf = (purpose: Signed['purpose'], device: string, key: TestKey, hardware?: string) => {
    const { nonce } = identities.issueNonce()
    const signature = key.sign(signedBytes({ purpose, nonce, bridge, fleet, device, hardware }))
    return { v: 1, device, nonce, signature, ...(hardware === undefined ? {} : { hardware }) }
  }
  return {
    stateDir: dir.path,
    store,
    grants,
    identities,
    clock,
    token: ({ uses = 9, approve = true } = {}) =>
      store.createToken('operator:test', { group: 'default', uses, expiresS: 3_600, approve }).secret,
    async enrol(device, key, token, fields = {}, from = '127.0.0.1') {
      const request = { ...proofOf('enroll', device, key), token, publicKey: key.publicKey, ...fields }
      return identities.enrol(EnrolRequest.parse(request), from)
    },
    grantAccess: async (device, key, hardware, renewsKey) =>
      identities.grantAccess(GrantRequest.parse({ ...proofOf('session', device, key, hardware), renewsKey }), '127.0.0.1'),
    async renewKey(device, key, newKey, fields = {}) {
      const { nonce } = identities.issueNonce()
      const { publicKey } = newKey
      const bytes = signedBytes({ purpose: 'renew-key', nonce, bridge, fleet, device, newKey: publicKey })
      const signed = { v: 1, device, nonce, publicKey, signature: key.sign(bytes), newSignature: newKey.sign(bytes) }
      return identities.renewKey(RenewKeyRequest.parse({ ...signed, ...fields }), '127.0.0.1')
    },
    [Symbol.dispose]() {
      void identities.close()
      store.close()
      dir[Symbol.dispose]()
    },
  }
}
