import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { SlowTier } from './slow-tier.ts'
import { fileTier } from './slow-tier-file.ts'
import { memoryTier } from './slow-tier-memory.ts'

export interface SlowTierSettings {
  readonly kvSlow: 'none' | 'memory' | 'file'
  readonly kvSlowBudgetBytes: number
  /** Pages stay this long after their stream. */
  readonly prefixKeepS: number
  readonly limits: { readonly deviceKvPercent: number }
  /** Holds the files, in a folder of their own. */
  readonly stateDir: string
}

/**
 * One tier for all models of a bridge; it closes when the last of them has closed it. Without the tier in files, those that an
 * earlier process left are deleted: they hold the KV of its clients.
 * @param models see PageOwner.model
 * @throws the system's error where the folder of the files cannot be created or deleted
 */
export function openSlowTier(
  { kvSlow, kvSlowBudgetBytes: budgetBytes, stateDir, prefixKeepS, limits }: SlowTierSettings,
  { clock, logger }: { clock: Clock; logger: Logger },
  models: readonly string[],
): SlowTier | undefined {
  const folder = join(stateDir, 'kv')
  if (kvSlow !== 'file') rmSync(folder, { recursive: true, force: true })
  switch (kvSlow) {
    case 'none':
      return undefined
    case 'memory':
      return sharedBy(models.length, memoryTier(budgetBytes))
    case 'file': {
      const clientBytes = Math.floor((budgetBytes * limits.deviceKvPercent) / 100)
      const keepMs = prefixKeepS * 1_000
      return sharedBy(models.length, fileTier({ folder, budgetBytes, clientBytes, keepMs, models, clock, logger }))
    }
    default:
      return kvSlow satisfies never
  }
}

function sharedBy(users: number, { close, ...tier }: SlowTier): SlowTier {
  let openUsers = users
  return {
    ...tier,
    async close() {
      openUsers -= 1
      if (openUsers === 0) await close()
    },
  }
}
