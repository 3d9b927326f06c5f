import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { accessOf, type BridgeAccess, bridgeOptions } from '../../core/kit/login/bridge-access.ts'
import { readLogins } from '../../core/kit/login/logins.ts'
import { adminOperations } from '../../core/wire/protocol/http/admin.ts'
import type { Administration } from '../identity/administration.ts'
import { BridgeClient, userOf } from './bridge-client.ts'
import { localBridgeDir } from './state-dir.ts'

/** For commands that manage tokens, keys and devices: over HTTP, or in the state folder of this machine's bridge. */
export const administrationOptions = {
  stateDir: z
    .string()
    .meta({
      description: 'folder of a bridge on this machine, running or not',
      fallback: "the login's bridge, else ~/.local/state/brim/bridge, else the installed service",
    })
    .optional(),
  ...bridgeOptions,
}
export type AdministrationOptions = z.output<z.ZodObject<typeof administrationOptions>>

/**
 * Over HTTP where a bridge or key is given, or the operator is logged in; else in the folder of this machine's bridge.
 * @throws BrimError USAGE, IDENTITY_INVALID, STORE_FAILED, and what `use` throws
 */
export async function administer<T>(
  { stateDir, ...options }: AdministrationOptions,
  io: Io,
  use: (administration: Administration, at: BridgeAccess | undefined) => Promise<T>,
): Promise<T> {
  const isRemote = options.bridgeUrl !== undefined || options.keyFile !== undefined
  if (isRemote && stateDir !== undefined)
    throw new BrimError('USAGE', '--state-dir is a folder of this machine; --bridge-url and --key-file are for HTTP', {
      hint: 'give one or the other',
    })
  if (isRemote || (stateDir === undefined && readLogins(io).current !== null)) {
    const access = await accessOf(options, io)
    return use(overHttp(new BridgeClient(access, io.signal)), access)
  }
  const { administrationOf } = await import('../identity/administration.ts')
  const { openIdentityStore } = await import('../identity/store.ts')
  const { bridgeDatabases } = await import('../databases.ts')
  const { requireStores } = await import('../../core/kit/store/require-stores.ts')
  const { readAddress } = await import('../identity/local-access.ts')
  const { asOwner } = await import('../../core/kit/store/as-owner.ts')
  const folder = localBridgeDir(stateDir, io)
  return asOwner(folder, async () => {
    requireStores(folder, bridgeDatabases)
    const store = openIdentityStore(folder)
    try {
      // A user who can write the bridge's database is an admin.
      return await use(administrationOf(store, `operator:${userOf(io)}`), readAddress(folder))
    } finally {
      store.close()
    }
  })
}

function overHttp(client: BridgeClient): Administration {
  const {
    tokens,
    createToken,
    revokeToken,
    keys,
    createKey,
    revokeKey,
    devices,
    approveDevice,
    revokeDevice,
    tls,
    announcePin,
    withdrawPin,
    audit,
  } = adminOperations
  return {
    createToken: async (body) => (await client.call(createToken, { body })).value,
    tokens: async () => (await client.call(tokens, {})).value.tokens,
    revokeToken: async (id) => void (await client.call(revokeToken, { params: { id } })),
    createKey: async (body) => (await client.call(createKey, { body })).value,
    keys: async () => (await client.call(keys, {})).value.keys,
    revokeKey: async (id) => void (await client.call(revokeKey, { params: { id } })),
    devices: async () => (await client.call(devices, {})).value.devices,
    approve: async (id) => (await client.call(approveDevice, { params: { id } })).value,
    revoke: async (id) => (await client.call(revokeDevice, { params: { id } })).value,
    tls: async () => (await client.call(tls, {})).value,
    announcePin: async (pin) => void (await client.call(announcePin, { body: { pin } })),
    withdrawPin: async (pin) => void (await client.call(withdrawPin, { params: { pin } })),
    audit: async (limit) => (await client.call(audit, { query: { limit } })).value.audit,
  }
}
