import { X509Certificate } from 'node:crypto'
import { hostname } from 'node:os'
import { BrimError } from '../../core/kit/base/errors.ts'
import { pinOf } from '../../core/kit/base/tls-pin.ts'
import type { BridgeConfig } from '../config.ts'
import type { Certificate } from '../http/certificate.ts'
import { requiresAuth } from '../identity/exposure.ts'
import type { Base } from '../parts/base.ts'
import type { Middle } from '../parts/middle.ts'
import type { StandbyAnswers } from '../parts/standby-answers.ts'
import type { AnnouncedNode, FleetDatabase, FleetRecord, Primary } from './fleet-database.ts'
import { leaseMs } from './held-lease.ts'
import type { LinkGate } from './link-gate.ts'
import type { NodeLinks } from './node-links.ts'
import type { OtherNodes } from './other-nodes.ts'

/** What both roles of a node need. */
export interface NodeContext extends Omit<Base, 'closers'> {
  readonly database: FleetDatabase
  readonly others: OtherNodes
  readonly gate: LinkGate
  /** The models are open, and serve devices, whatever the role. */
  readonly middle: Middle
  readonly links: NodeLinks
  readonly answers: StandbyAnswers
  readonly certificate: Certificate | undefined
  /** Aborted when the node stops. */
  readonly stopping: AbortSignal
}

/** This node, wherever it listens. @throws BrimError as `requiresAuth` */
export function ownNode(config: BridgeConfig, certificate: Certificate | undefined): Omit<Primary, 'url'> {
  const pin = certificate ? pinOf(new X509Certificate(certificate.current.cert).publicKey) : null
  return { node: config.database!.node ?? hostname(), pin, auth: requiresAuth({ ...config, enrolled: true }) }
}

/** This node, as the others reach it. @param url where it listens @throws BrimError CONFIG_INVALID */
export function selfOf({ config, certificate }: NodeContext, url: string): Primary {
  const { database, host } = config
  const { nodeUrl = url } = database!
  if (nodeUrl === url && (host === '0.0.0.0' || host === '::'))
    throw new BrimError('CONFIG_INVALID', `the other bridges cannot connect to the address ${host}`, {
      hint: 'name this one by --node-url https://<address>:<port>',
    })
  return { ...ownNode(config, certificate), url: nodeUrl }
}

/** @throws BrimError CONFIG_INVALID where a migration has begun, or has moved the fleet elsewhere */
export function requireFleetServed({ versions }: FleetRecord, fleet: string): void {
  if (Object.keys(versions).length > 0) return
  throw new BrimError(
    'CONFIG_INVALID',
    `the database no longer serves the fleet "${fleet}", or not yet: "brim bridge migrate" has begun or moved it`,
    { hint: 'run "brim bridge migrate --to", or start without --database where the fleet has been moved to' },
  )
}

/** Tells the other nodes that this one is there, and learns of them. @param primary its name, as known @returns all that are there. @throws BrimError DATABASE_UNAVAILABLE */
export async function announce(
  { database, links }: NodeContext,
  { node, url }: Primary,
  primary: string | undefined,
): Promise<readonly AnnouncedNode[]> {
  const isDraining = await database.announce({ node, url, ...links.load, isDraining: links.isStopping })
  const nodes = await database.nodes(leaseMs)
  links.update(nodes, isDraining, primary)
  return nodes
}

/** Of an error: the database may come back, or another node is the primary. */
export const isUnavailable = (error: unknown): boolean => hasCode(error, ['DATABASE_UNAVAILABLE', 'NO_PRIMARY'])

/** Of an error that ends a role: the next attempt may succeed, or another node can be the primary. */
export const mayPass = (error: unknown): error is BrimError =>
  isUnavailable(error) || hasCode(error, ['LISTEN_FAILED', 'LISTEN_REFUSED', 'BROKER_UNREACHABLE'])

const hasCode = (error: unknown, codes: readonly string[]): error is BrimError =>
  error instanceof BrimError && codes.includes(error.code)
