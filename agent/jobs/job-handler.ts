/**
 * Runs one kind of job.
 * @param emitText reports a piece of the answer
 * @returns the whole result
 */
export type JobHandler = (
  input: unknown,
  emitText: (text: string) => void,
  signal: AbortSignal,
  job: JobContext,
) => Promise<Record<string, unknown>>

export type JobHandlers = Readonly<Record<string, JobHandler>>

export interface JobContext {
  /** Address of the broker that delivered the job. */
  readonly link: string
  /** Reports the progress of a job without text. */
  progress(doneBytes: number, totalBytes: number): void
}
