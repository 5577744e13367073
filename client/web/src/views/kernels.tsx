// Stored kernels, and what a definition says: dims, parameters, rules, versions.
import type { Dim, Kernel, Parameter } from "api";
import { call } from "../api";
import type { ViewProps } from "../app";
import { Facts, Long, Warning } from "../facts";
import { count, enumText, int, valueText } from "../format";
import { usePoll } from "../poll";
import { href } from "../route";
import { Empty, ErrorLine, Loading, Panel, Table } from "../ui";

const POLL_MS = 30_000;
const MOST_VALUES = 32; // that are listed

// All of them, the newest first.
async function loadAll(signal: AbortSignal): Promise<Kernel[]> {
  const kernels: Kernel[] = [];
  let pageToken = "";
  do {
    const page = await call("tunefarm.v1.KernelService/ListKernels", { pageSize: 1000, pageToken }, signal);
    kernels.push(...(page.kernels ?? []));
    pageToken = page.nextPageToken ?? "";
  } while (pageToken);
  return kernels;
}

function language(kernel: Kernel): string {
  return enumText(kernel.language, "LANGUAGE_");
}

function shortId(kernel: Kernel): string {
  return (kernel.name ?? "").replace("kernels/", "").slice(0, 12);
}

export function KernelsView() {
  const { data, error } = usePoll("kernels", loadAll, POLL_MS);
  if (error && !data) return <ErrorLine error={error} />;
  if (!data) return <Loading />;
  const byName = new Map<string, Kernel[]>();
  for (const kernel of data) {
    const name = kernel.displayName ?? "";
    byName.set(name, [...(byName.get(name) ?? []), kernel]);
  }
  return (
    <>
      <h1>Kernels</h1>
      <Table<[string, Kernel[]]>
        caption="Stored kernels"
        hidesCaption
        rows={[...byName].sort(([a], [b]) => (a < b ? -1 : 1))}
        rowKey={([name]) => name}
        empty={
          <>
            No stored kernels. A kernel is stored when it is first tuned: <code>tunefarm tune matmul_host</code>
          </>
        }
        columns={[
          {
            name: "kernel",
            cell: ([name]) => (
              <a href={href(`kernels/${name}`)}>
                <Long text={name} />
              </a>
            ),
          },
          { name: "language", cell: ([, [newest]]) => language(newest!) },
          {
            name: "dims",
            cell: ([, [newest]]) => <Long text={newest!.dims?.map((dim) => dim.name).join(", ") ?? ""} />,
          },
          { name: "parameters", isNumber: true, cell: ([, [newest]]) => count(newest!.parameters?.length) },
          { name: "definitions", isNumber: true, cell: ([, all]) => count(all.length) },
          {
            name: "more",
            cell: ([name]) => (
              <span class="buttons">
                <a href={href("jobs", { kernel: name })}>jobs</a>
                <a href={href("catalog", { kernel: name })}>best configs</a>
                <a href={href("misses", { kernel: name })}>misses</a>
              </span>
            ),
          },
        ]}
      />
    </>
  );
}

function domainText(parameter: Parameter): string {
  const { range, powersOfTwo, values } = parameter;
  if (range) return `${range.first ?? 0} to ${range.last ?? 0} in steps of ${Math.max(1, int(range.step))}`;
  if (powersOfTwo) return `powers of two from ${powersOfTwo.first ?? 0} to ${powersOfTwo.last ?? 0}`;
  const all = [
    ...(values?.ints ?? []),
    ...(values?.doubles ?? []),
    ...(values?.bools ?? []),
    ...(values?.strings ?? []),
  ];
  const rest = all.length - MOST_VALUES;
  return all.slice(0, MOST_VALUES).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

function dimText(dim: Dim): string {
  if (dim.values?.length) return dim.values.map(valueText).join(", ");
  return `${int(dim.min) || 1}${int(dim.max) ? ` to ${dim.max}` : " and more"}`;
}

function lookupText(dim: Dim): string {
  if (dim.inputsOnly) return "makes inputs only";
  return enumText(dim.lookup, "LOOKUP_RULE_").replace("UNSPECIFIED", "").toLowerCase().replaceAll("_", " ") || "exact";
}

function Definition(props: { kernel: Kernel }) {
  const { kernel } = props;
  return (
    <>
      {kernel.description && <p class="prose">{kernel.description}</p>}
      {kernel.unverifiedReason && (
        <p>
          <Warning>Results are not verified: {kernel.unverifiedReason}</Warning>
        </p>
      )}
      <Facts
        facts={[
          ["language", language(kernel)],
          ["definition", <code>{kernel.name}</code>],
          ["program", <code>{kernel.programDigest}</code>],
          ["sources", kernel.sources?.map((source) => source.path).join(", ")],
          ["compile options", kernel.compileOptions?.join(" ")],
          ["FLOPs", kernel.flops && <code>{kernel.flops}</code>],
          ["arithmetic unit", kernel.flopsUnit && <code>{kernel.flopsUnit}</code>],
          ["bytes", kernel.bytes && <code>{kernel.bytes}</code>],
        ]}
      />
      <div class="panels">
        <Panel title="Dims">
          <Table
            caption="Dims"
            hidesCaption
            rows={kernel.dims ?? []}
            rowKey={(dim) => dim.name ?? ""}
            empty="The kernel has no dims."
            columns={[
              {
                name: "dim",
                cell: (dim) => (
                  <code>
                    <Long text={dim.name ?? ""} />
                  </code>
                ),
              },
              { name: "values", cell: (dim) => <Long text={dimText(dim)} /> },
              { name: "default", cell: (dim) => (dim.defaultValue ? valueText(dim.defaultValue) : "required") },
              { name: "look-up", cell: lookupText },
              { name: "description", cell: (dim) => <Long text={dim.description ?? ""} /> },
            ]}
          />
        </Panel>
        <Panel title="Parameters">
          <Table
            caption="Parameters"
            hidesCaption
            rows={kernel.parameters ?? []}
            rowKey={(parameter) => parameter.name ?? ""}
            empty="The kernel has no parameters."
            columns={[
              {
                name: "parameter",
                cell: (parameter) => (
                  <code>
                    <Long text={parameter.name ?? ""} />
                  </code>
                ),
              },
              { name: "values", cell: (parameter) => <Long text={domainText(parameter)} /> },
              { name: "default", cell: (parameter) => valueText(parameter.defaultValue) || "the first" },
              { name: "description", cell: (parameter) => <Long text={parameter.description ?? ""} /> },
            ]}
          />
        </Panel>
        {kernel.constraints && (
          <Panel title="Rules of the space">
            <Table
              caption="Rules of the space"
              hidesCaption
              rows={kernel.constraints}
              rowKey={(rule) => rule.expression ?? ""}
              columns={[
                { name: "must hold", cell: (rule) => <code>{rule.expression}</code> },
                { name: "because", cell: (rule) => rule.reason },
              ]}
            />
          </Panel>
        )}
        {kernel.derived && (
          <Panel title="Derived values">
            <Facts facts={kernel.derived.map((each) => [each.name ?? "", <code>{each.expression}</code>])} />
          </Panel>
        )}
        {kernel.startingConfigs && (
          <Panel title="Configs that a search tries first">
            <pre>{kernel.startingConfigs.join("\n")}</pre>
          </Panel>
        )}
      </div>
    </>
  );
}

export function KernelView({ params, query }: ViewProps) {
  const name = params.kernel ?? "";
  const { data, error } = usePoll("kernels", loadAll, POLL_MS);
  if (error && !data) return <ErrorLine error={error} />;
  if (!data) return <Loading />;
  const versions = data.filter((kernel) => kernel.displayName === name);
  const shown = versions.find((kernel) => kernel.name === `kernels/${query.definition}`) ?? versions[0];
  return (
    <>
      <p class="path">
        <a href={href("kernels")}>kernels</a> ›
      </p>
      <h1>{name}</h1>
      {!shown ? (
        <Empty>There is no stored kernel of this name.</Empty>
      ) : (
        <>
          <p class="buttons">
            <a href={href("jobs", { kernel: name })}>jobs</a>
            <a href={href("catalog", { kernel: name })}>best configs</a>
            <a href={href("misses", { kernel: name })}>misses</a>
          </p>
          {versions.length > 1 && (
            <nav aria-label="Definitions">
              <span class="muted">definitions, newest first:</span>
              {versions.map((kernel) => (
                <a
                  key={kernel.name}
                  href={href(`kernels/${name}`, { definition: (kernel.name ?? "").replace("kernels/", "") })}
                  aria-current={kernel === shown ? "page" : undefined}
                >
                  <code>{shortId(kernel)}</code>
                </a>
              ))}
            </nav>
          )}
          <Definition kernel={shown} />
        </>
      )}
    </>
  );
}
