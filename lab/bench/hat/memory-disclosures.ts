import Database from 'better-sqlite3'
import { Disclosures } from '../../../agent/disclosures/disclosures.ts'
import { DisclosureLedger, disclosureTables } from '../../../agent/disclosures/ledger.ts'
import type { Logger } from '../../../core/kit/base/logger.ts'

/** The ledger of a device that is not one of an owner: in memory. */
export function memoryDisclosures(logger: Logger): Disclosures {
  const store = new Database(':memory:')
  store.exec(disclosureTables)
  return new Disclosures(new DisclosureLedger(store, { maxBytes: 2 ** 24, maxAgeMs: 1e12 }, logger))
}
