import type { CommandModule } from 'yargs'
import type { Io } from '../core/base/io.ts'
import { benchAcceptanceCommand } from './bench-acceptance.ts'
import { benchChaosCommand } from './bench-chaos.ts'
import { benchEngineCommand } from './bench-engine.ts'
import { benchFailoverCommand } from './bench-failover.ts'
import { benchHatCommand } from './bench-hat.ts'
import { benchQueueCommand } from './bench-queue.ts'
import { benchTelemetryCommand } from './bench-telemetry.ts'

/** `brim bench …` */
export function benchCommand(io: Io): CommandModule {
  return {
    command: 'bench <name>',
    describe: 'benchmarks: every figure of the README, measured on this machine',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim bench <name> [options]')
        .example('brim bench engine --quick', 'the engine in under a minute')
        .example('brim bench acceptance --quick', 'the drafters, on a few prompts')
        .example('brim bench hat --quick', 'HAT against its baselines, on shaped links')
        .command(benchEngineCommand(io))
        .command(benchAcceptanceCommand(io))
        .command(benchFailoverCommand(io))
        .command(benchHatCommand(io))
        .command(benchQueueCommand(io))
        .command(benchChaosCommand(io))
        .command(benchTelemetryCommand(io))
        .demandCommand(1, 'say what to measure: brim bench --help lists the benchmarks'),
    handler: () => {},
  }
}
