import { createAccount, createOperator, encodeAccount, encodeOperator, fromSeed, type KeyPair } from '@nats-io/jwt'
import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'

const seed = (kind: 'A' | 'O') => z.string().regex(new RegExp(`^S${kind}[A-Z2-7]{56}$`))

/** How a bridge administers a NATS cluster. */
const NatsAdmin = z.strictObject({
  /** Addresses of nodes for NATS clients. */
  servers: z.array(z.url({ protocol: /^(?:nats|tls)$/ })).min(1),
  /** Seed of the key that signs accounts. */
  operator: seed('O'),
  /** Seed of the account whose users administer the cluster. */
  system: seed('A'),
  /** Public key of the account whose users are the bridge and the devices. */
  account: z.string().regex(/^A[A-Z2-7]{55}$/),
})
export type NatsAdmin = z.infer<typeof NatsAdmin>

/** @throws BrimError CONFIG_INVALID, whose message does not repeat the text */
export function parseNatsAdmin(text: string, path: string): NatsAdmin {
  try {
    return NatsAdmin.parse(JSON.parse(text))
  } catch {
    throw new BrimError('CONFIG_INVALID', `${path} does not hold the keys of a NATS cluster`, {
      hint: 'brim bridge nats-keys creates them',
    })
  }
}

export const keyOf = (text: string): KeyPair => fromSeed(new TextEncoder().encode(text))
const seedOf = (key: KeyPair): string => new TextDecoder().decode(key.getSeed())

/** Without these an account may have no connections. */
const limits = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 }
/** Where NATS stores MQTT sessions and retained messages. A system account must have none. */
const storage = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 }

export interface NatsCluster {
  readonly admin: NatsAdmin
  /** Part of the configuration of each node: it accepts what the keys sign. */
  readonly accountsConf: string
}

/** New keys for a cluster with these addresses. */
export async function createNatsCluster(servers: readonly string[]): Promise<NatsCluster> {
  const operator = createOperator()
  const [system, account] = [createAccount(), createAccount()]
  const jwts = [
    [system, await encodeAccount('system', system, { limits }, { signer: operator })],
    [account, await encodeAccount('brim', account, { limits: { ...limits, ...storage } }, { signer: operator })],
  ] as const
  const accountsConf = [
    '# Part of the configuration of each node. It holds no secret.',
    `operator: ${await encodeOperator('brim', operator, { system_account: system.getPublicKey() })}`,
    `system_account: ${system.getPublicKey()}`,
    'resolver_preload: {',
    ...jwts.map(([key, jwt]) => `  ${key.getPublicKey()}: ${jwt}`),
    '}\n',
  ].join('\n')
  const [operatorSeed, systemSeed] = [seedOf(operator), seedOf(system)]
  return {
    admin: { servers: [...servers], operator: operatorSeed, system: systemSeed, account: account.getPublicKey() },
    accountsConf,
  }
}
