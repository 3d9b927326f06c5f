import type { CommandModule } from 'yargs'
import type { Io } from '../../core/base/io.ts'
import { benchAcceptanceCommand } from './acceptance/bench.ts'
import { benchChaosCommand } from './chaos/bench.ts'
import { benchEngineCommand } from './engine/bench.ts'
import { benchFailoverCommand } from './failover/bench.ts'
import { benchHatCommand } from './hat/bench.ts'
import { benchQueueCommand } from './queue/bench.ts'
import { benchTelemetryCommand } from './telemetry/bench.ts'

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
