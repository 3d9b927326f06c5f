import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { accessOf, type BridgeAccess, bridgeOptions } from '../../core/kit/login/bridge-access.ts'
import { readLogins } from '../../core/kit/login/logins.ts'
import { BridgeClient, type RequestClient, userOf } from './bridge-client.ts'
import { localBridgeDir } from './state-dir.ts'

/** For commands that manage tokens, keys and devices: over HTTP, or in the state folder of this machine's bridge. */
export const administrationOptions = {
  stateDir: z.string().optional().meta({
    description: 'folder of a bridge on this machine, running or not',
    fallback: "the login's bridge, else ~/.local/state/brim/bridge, else the installed service",
  }),
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
  use: (client: RequestClient, at: BridgeAccess | undefined) => Promise<T>,
): Promise<T> {
  const isRemote = options.bridgeUrl !== undefined || options.keyFile !== undefined
  if (isRemote && stateDir !== undefined)
    throw new BrimError('USAGE', '--state-dir is a folder of this machine; --bridge-url and --key-file are for HTTP', {
      hint: 'give one or the other',
    })
  if (isRemote || (stateDir === undefined && readLogins(io).current !== null)) {
    const access = await accessOf(options, io)
    return use(new BridgeClient(access, io.signal), access)
  }
  const { administrationOf, carryOut } = await import('../identity/administration.ts')
  const { openIdentityStore } = await import('../identity/store.ts')
  const { bridgeDatabases } = await import('../databases.ts')
  const { requireStores } = await import('../../core/kit/store/require-stores.ts')
  const { requirePrimary } = await import('../replica-marker.ts')
  const { readAddress } = await import('../identity/local-access.ts')
  const { asOwner } = await import('../../core/kit/store/as-owner.ts')
  const folder = localBridgeDir(stateDir, io)
  return asOwner(folder, async () => {
    requireStores(folder, bridgeDatabases)
    requirePrimary(folder, readAddress(folder))
    using store = openIdentityStore(folder)
    // A user who can write the bridge's database is an admin.
    const administration = administrationOf(store, `operator:${userOf(io)}`)
    const local: RequestClient = {
      async call(operation, { params = {}, query, body }) {
        const raw = carryOut(operation, { params, query, body }, administration)
        return { raw, value: raw as never }
      },
    }
    return await use(local, readAddress(folder))
  })
}
