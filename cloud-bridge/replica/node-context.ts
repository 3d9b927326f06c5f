import { X509Certificate } from 'node:crypto'
import { hostname } from 'node:os'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { pinOf } from '../../core/kit/base/tls-pin.ts'
import type { BridgeConfig } from '../config.ts'
import type { Certificate } from '../http/certificate.ts'
import { requiresAuth } from '../identity/exposure.ts'
import type { FleetDatabase, Primary } from './fleet-database.ts'

/** What both roles of a node need. */
export interface NodeContext {
  readonly config: BridgeConfig
  readonly clock: Clock
  readonly logger: Logger
  readonly database: FleetDatabase
  readonly certificate: Certificate | undefined
  /** Aborted when the node stops. */
  readonly stopping: AbortSignal
}

/** This node, as the others reach it. @param url where it listens @throws BrimError CONFIG_INVALID */
export function selfOf({ config, certificate }: NodeContext, url: string): Primary {
  const { database, host } = config
  const { node = hostname(), nodeUrl = url } = database!
  if (nodeUrl === url && (host === '0.0.0.0' || host === '::'))
    throw new BrimError('CONFIG_INVALID', `the other bridges cannot connect to the address ${host}`, {
      hint: 'name this one by --node-url https://<address>:<port>',
    })
  const pin = certificate ? pinOf(new X509Certificate(certificate.current.cert).publicKey) : null
  return { node, url: nodeUrl, pin, auth: requiresAuth({ ...config, enrolled: true }) }
}

/** Of an error: the database may come back, or another node is the primary. */
export const isUnavailable = (error: unknown): boolean =>
  error instanceof BrimError && (error.code === 'DATABASE_UNAVAILABLE' || error.code === 'NO_PRIMARY')
