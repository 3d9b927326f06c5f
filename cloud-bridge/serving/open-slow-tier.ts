import { join } from 'node:path'
import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { SlowTier } from './slow-tier.ts'
import { fileTier } from './slow-tier-file.ts'
import { memoryTier } from './slow-tier-memory.ts'

export interface SlowTierSettings {
  readonly kvSlow: 'none' | 'memory' | 'file'
  readonly kvSlowBudgetBytes: number
  /** Holds the files, in a folder of their own. */
  readonly stateDir: string
}

/** @throws the system's error where the folder of the files cannot be created */
export function openSlowTier(
  { kvSlow, kvSlowBudgetBytes, stateDir }: SlowTierSettings,
  { clock, logger }: { clock: Clock; logger: Logger },
): SlowTier | undefined {
  switch (kvSlow) {
    case 'none':
      return undefined
    case 'memory':
      return memoryTier(kvSlowBudgetBytes)
    case 'file':
      return fileTier({ folder: join(stateDir, 'kv'), budgetBytes: kvSlowBudgetBytes, clock, logger })
    default:
      return kvSlow satisfies never
  }
}
