import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take ten seconds and more, the longest first. One that has become shorter, or is new, does no harm. */
const long = [
  'test/lab/bench/smoke.integration.test.ts',
  'test/lab/bench/hat.integration.test.ts',
  'test/scripts/packaging/archive.integration.test.ts',
  'test/gpu/conformance.integration.test.ts',
  'test/e2e/silent-device.integration.test.ts',
  'test/cloud-bridge/llm/resumed-answers.integration.test.ts',
  'test/lab/bench/pice/pice.integration.test.ts',
  'test/lab/bench/tokenflow.integration.test.ts',
  'test/lab/bench/failover.integration.test.ts',
  'test/agent/disco/fallback.integration.test.ts',
  'test/gpu/families.integration.test.ts',
  'test/cloud-bridge/page/page.integration.test.ts',
  'test/e2e/python-clients.integration.test.ts',
  'test/agent/software/software-install.integration.test.ts',
  'test/security/answers.integration.test.ts',
  'test/gpu/choose-provider.integration.test.ts',
  'test/cloud-bridge/replica/several-bridges.integration.test.ts',
  'test/lab/bench/structured.integration.test.ts',
  'test/agent/bundles/bundle-install.integration.test.ts',
  'test/lab/bench/page.integration.test.ts',
  'test/core/model/bundle/memory.integration.test.ts',
  'test/lab/bench/acceptance.integration.test.ts',
  'test/e2e/bridge-restart.integration.test.ts',
  'test/agent/hat/failover.integration.test.ts',
  'test/agent/disco/link-faults.integration.test.ts',
  'test/agent/hat/structured.integration.test.ts',
  'test/core/model/engine/independent-rows.integration.test.ts',
  'test/agent/hat/hat-trees.integration.test.ts',
  'test/agent/disclosures/disclosures.integration.test.ts',
  'test/chaos/jobs.integration.test.ts',
  'test/e2e/first-bundle.integration.test.ts',
  'test/cloud-bridge/home-assistant/home-assistant.integration.test.ts',
  'test/e2e/previous-release.integration.test.ts',
  'test/security/sketched-answers.integration.test.ts',
  'test/conformance/control-plane.integration.test.ts',
  'test/e2e/memory.integration.test.ts',
  'test/lab/bench/cluster.integration.test.ts',
  'test/lab/bench/fleet.integration.test.ts',
  'test/lab/bench/privacy.integration.test.ts',
  'test/lab/baselines/program.integration.test.ts',
  'test/core/model/bundle/memory-need.integration.test.ts',
  'test/e2e/demo.integration.test.ts',
  'test/e2e/broker-cluster.integration.test.ts',
  'test/e2e/hat-exactness.integration.test.ts',
  'test/e2e/hat-processes.integration.test.ts',
  'test/agent/disco/server-faults.integration.test.ts',
  'test/cloud-bridge/serving/token-stream.integration.test.ts',
  'test/jetson/systemd.integration.test.ts',
]

/**
 * Runs long files first, so that none of them is left to one worker at the end. Vitest itself knows how long a file takes only
 * after a run, and takes larger files first until then.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification) => {
      const { sequence, isolate } = project.config
      const place = long.indexOf(relative(this.ctx.config.root, moduleId))
      // A worker goes on only with files of its own project; isolated files take a new one each.
      return [sequence.groupOrder, isolate ? 0 : 1, place < 0 ? long.length : place] as const
    }
    const ranked = (await super.sort(files)).map((file) => ({ file, rank: rank(file) }))
    ranked.sort((a, b) => a.rank[0] - b.rank[0] || a.rank[1] - b.rank[1] || a.rank[2] - b.rank[2])
    return ranked.map(({ file }) => file)
  }
}
