import { join } from 'node:path'
import { clockIsSet } from '../../core/kit/base/clock.ts'
import { sampledWarnings } from '../../core/kit/base/sampled-warnings.ts'
import { systemClocks } from '../../core/kit/base/steady-wall-clock.ts'
import { exchangeRate, flopsPerJoule } from '../../core/policy/disco/exchange-rate.ts'
import { flopsOf } from '../../core/policy/disco/flops.ts'
import type { Host } from '../device/host.ts'
import { createSampler } from '../device/sampler.ts'
import { costsOf } from '../disco/config.ts'
import { type EnergyPerToken, SpendingBudget } from '../disco/spending-budget.ts'
import { openSpendingDatabase, SpendingLedger } from '../disco/spending-ledger.ts'
import type { ActiveModels } from '../models/active-models.ts'
import { PowerState } from '../telemetry/power-state.ts'
import type { Base } from './base.ts'

const hourMs = 3_600_000
const joulesPerKilowattHour = 3.6e6
/** An answer whose work per token is taken for that of all, where energy is not measured: half of it is attention in small models. */
const typicalAnswer = { promptTokens: 128, tokens: 128 }

export interface OwnerBudget {
  readonly budget: SpendingBudget
  /** Its samples are those of the budget. */
  readonly sampler: PowerState
}

/**
 * What answers may cost and have cost, by the samples of the device: power, and its battery.
 * @param clocks of the machine
 * @throws BrimError STORE_FAILED
 */
export function openBudget(
  { config, clock, closers, logger, recording }: Pick<Base, 'config' | 'clock' | 'closers' | 'logger' | 'recording'>,
  models: Pick<ActiveModels, 'slm'>,
  host: Host,
  clocks = systemClocks(),
): OwnerBudget {
  const budgetLogger = logger.child({ component: 'budget' })
  const { dollars, joules } = config.budget
  const isBounded = dollars !== undefined || joules !== undefined
  const store = openSpendingDatabase(join(config.stateDir, 'spending.sqlite'), isBounded, budgetLogger)
  closers.push(() => store.close())
  const sampler = createSampler({ host, stateDir: config.stateDir, clock, logger: logger.child({ component: 'device' }) })
  const power = new PowerState(sampler, () => models.slm?.speed.isComputing ?? false, clock)
  closers.push(power.start())
  const setting = config.budget.energyPrice
  const budget = new SpendingBudget({
    config: config.budget,
    dispatch: config.dispatch,
    maxWaitMs: config.limits.budgetWaitS * 1_000,
    price: costsOf(config.server?.price),
    energy: () => energyOf(models, power),
    exchangeRate: () => exchangeRate(power.battery, setting === undefined ? undefined : setting / joulesPerKilowattHour),
    ledger: new SpendingLedger({
      store,
      windowMs: config.budget.windowH * hourMs,
      clocks() {
        const { wallMs, ...up } = clocks()
        return { wallMs: clockIsSet(wallMs) ? wallMs : undefined, ...up }
      },
      logger: budgetLogger,
    }),
    clock,
    warn: sampledWarnings(budgetLogger, clock),
    recording,
  })
  return { budget, sampler: power }
}

/** Of the small model: from the device's power while it computes and its speed, else from its size. */
function energyOf({ slm }: Pick<ActiveModels, 'slm'>, power: PowerState): EnergyPerToken | undefined {
  if (!slm) return undefined
  const { prefillTokensPerS, decodeTokensPerS } = slm.speed
  if (power.busyW !== null && prefillTokensPerS !== undefined && decodeTokensPerS !== undefined)
    return { prompt: power.busyW / prefillTokensPerS, output: power.busyW / decodeTokensPerS, source: 'measured' }
  const flops = flopsOf(slm.source.dims, typicalAnswer)
  return { prompt: flops.prompt / flopsPerJoule, output: flops.output / flopsPerJoule, source: 'flops' }
}
